-- needs: 0017
-- Ends the run that is going in favour of another. Returns its run_id, or NULL if none was. Called with the site's row
-- locked.
create or replace function clerk_supersede_run(p_subdomain text, p_reason text) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_run_id bigint;
begin
    perform set_config('clerk.actor', 'clerk_supersede_run', true);
    select s.run_id into v_run_id from sites s where s.subdomain = p_subdomain;
    if not clerk_run_is_active(v_run_id) then
        return null;
    end if;
    perform clerk_end_run(p_subdomain, v_run_id, 'cancelled', 'superseded: ' || p_reason, 'Superseded');
    return v_run_id;
end;
$$;
