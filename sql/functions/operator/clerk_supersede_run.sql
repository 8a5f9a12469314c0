-- needs: 0018
-- Ends the open run of a site in favour of another. Returns its run_id, or NULL if there is none. Called with the
-- site's row locked.
create or replace function clerk_supersede_run(p_subdomain text, p_reason text) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_run_id bigint := clerk_open_run(p_subdomain);
begin
    perform set_config('clerk.actor', 'clerk_supersede_run', true);
    if v_run_id is null then
        return null;
    end if;
    perform clerk_end_run(p_subdomain, v_run_id, 'cancelled', 'superseded: ' || p_reason, 'Superseded');
    return v_run_id;
end;
$$;
