-- needs: 0018
-- Ends an active run as failed because its repairs made no progress. The next run takes up its open units. False, and
-- nothing changes, while a worker with a live lease works for the run: its result would be lost, and may be progress.
create or replace function clerk_abandon_run(p_subdomain text, p_run_id bigint, p_reason text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform set_config('clerk.actor', 'clerk_abandon_run', true);
    perform from sites s where s.subdomain = p_subdomain and s.run_id = p_run_id for no key update;
    if not found or not clerk_run_is_active(p_run_id) or clerk_has_live_job(p_subdomain, p_run_id) then
        return false;
    end if;
    perform clerk_end_run(p_subdomain, p_run_id, 'failed', p_reason);
    perform clerk_recount_site(p_subdomain);
    return true;
end;
$$;
