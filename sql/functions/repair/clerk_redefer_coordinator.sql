-- needs: 0018
-- Defers the coordinator of a complete phase again if it is missing. False if it is not.
create or replace function clerk_redefer_coordinator(p_subdomain text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
begin
    perform set_config('clerk.actor', 'clerk_redefer_coordinator', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found or not clerk_run_is_active(v_site.run_id)
       or not exists (select from missing_coordinators c where c.subdomain = p_subdomain) then
        return false;
    end if;
    update sites s set coordinator_enqueued = true, updated_at = date_trunc('second', clerk_now())
    where s.subdomain = p_subdomain;
    perform clerk_defer_coordinator(p_subdomain, v_site.run_id, clerk_phase(v_site.current_stage));
    return true;
end;
$$;
