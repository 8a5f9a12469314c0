-- needs: 0017
-- Puts the site back into the phase that its run is in.
create or replace function clerk_repair_site_phase(p_subdomain text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_phase integer;
begin
    perform set_config('clerk.actor', 'clerk_repair_site_phase', true);
    perform from sites s where s.subdomain = p_subdomain for no key update;
    select m.phase into v_phase from phase_mismatches m where m.subdomain = p_subdomain;
    if not found then
        return false;
    end if;
    update sites s
    set current_stage = case v_phase when 1 then 'fetch' when 2 then 'ocr' when 3 then 'extraction' else 'deploy' end,
        outcome = null
    where s.subdomain = p_subdomain;
    perform clerk_repair_units(p_subdomain);
    perform clerk_repair_transitions(p_subdomain);
    return true;
end;
$$;
