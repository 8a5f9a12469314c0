-- needs: 0018
-- Called by the coordinator of a complete phase: starts the next phase, or ends the run with the outcome of this one.
-- The site's row, locked, decides: an advance is accepted only while the site is in that phase of that run and the
-- coordinator is claimed. Any further call returns 'stale' and changes nothing.
create or replace function clerk_advance_phase(p_subdomain text, p_run_id bigint, p_phase integer) returns text
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_outcome text;
    v_reason text;
begin
    perform set_config('clerk.actor', 'clerk_advance_phase', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if v_site.run_id is distinct from p_run_id or clerk_phase(v_site.current_stage) is distinct from p_phase
       or not v_site.coordinator_enqueued then
        return 'stale';
    end if;
    update pipeline_transitions t set advanced_at = clerk_now() where t.run_id = p_run_id and t.phase = p_phase;

    select o.outcome, o.reason into v_outcome, v_reason from clerk_phase_outcome(p_subdomain, p_phase) o;
    if v_outcome is not null then
        perform clerk_end_run(p_subdomain, p_run_id, v_outcome, v_reason);
        return 'ended: ' || v_outcome;
    end if;
    perform clerk_start_phase(p_subdomain, p_run_id, p_phase + 1);
    return 'started phase ' || p_phase + 1;
end;
$$;
