-- needs: 0018
-- Starts a run from phase 3 for a dirty site without an open run. Returns its run_id, or NULL if there is nothing to
-- do.
create or replace function clerk_start_refresh_run(p_subdomain text) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
begin
    perform set_config('clerk.actor', 'clerk_start_refresh_run', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found or not v_site.dirty or clerk_open_run(p_subdomain) is not null then
        return null;
    end if;
    return clerk_start_run(p_subdomain, 'late documents processed', false, 3);
end;
$$;
