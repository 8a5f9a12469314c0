-- needs: 0017
-- Makes the record of how the present run went from phase to phase agree with the phase it is in.
create or replace function clerk_repair_transitions(p_subdomain text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_run_id bigint;
    v_phase integer;
    v_current integer;
    v_mended boolean := false;
begin
    perform set_config('clerk.actor', 'clerk_repair_transitions', true);
    select s.run_id, clerk_phase(s.current_stage) into v_run_id, v_current
    from sites s where s.subdomain = p_subdomain for no key update;
    for v_phase in select t.phase from transition_mismatches t where t.subdomain = p_subdomain loop
        v_mended := true;
        if v_phase = v_current then
            update pipeline_transitions t set advanced_at = null where t.run_id = v_run_id and t.phase = v_phase;
        else
            insert into pipeline_transitions as t (run_id, phase, claimed_at, last_deferred_at, advanced_at)
            values (v_run_id, v_phase, clerk_now(), clerk_now(), clerk_now())
            on conflict (run_id, phase) do update set advanced_at = excluded.advanced_at;
        end if;
    end loop;
    if v_mended then
        perform clerk_recount_site(p_subdomain);
    end if;
    return v_mended;
end;
$$;
