-- needs: 0017
-- A dirty site whose run is over gets a new run from phase 3. Returns its run_id, or NULL if there is none to do.
create or replace function clerk_start_refresh_run(p_subdomain text) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
begin
    perform set_config('clerk.actor', 'clerk_start_refresh_run', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found or not v_site.dirty or clerk_run_is_active(v_site.run_id) then
        return null;
    end if;
    return clerk_start_run(p_subdomain, 'late documents healed', false, 3);
end;
$$;
