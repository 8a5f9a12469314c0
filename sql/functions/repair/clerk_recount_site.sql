-- needs: 0018
-- Sets the counters of a site, and of its run's record if the run has ended, to what the ledger says. Then sets the
-- claim of the coordinator to what follows: if the phase is complete, claimed, with a coordinator deferred; otherwise
-- unclaimed.
create or replace function clerk_recount_site(p_subdomain text) returns void
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
begin
    perform set_config('clerk.actor', 'clerk_recount_site', true);
    perform from sites s where s.subdomain = p_subdomain for no key update;
    update sites s
    set fetch_total = n.fetch_total, fetch_completed = n.fetch_completed, fetch_failed = n.fetch_failed,
        ocr_total = n.ocr_total, ocr_completed = n.ocr_completed, ocr_failed = n.ocr_failed,
        compilation_total = n.compilation_total, compilation_completed = n.compilation_completed,
        compilation_failed = n.compilation_failed,
        extraction_total = n.extraction_total, extraction_completed = n.extraction_completed,
        extraction_failed = n.extraction_failed,
        deploy_total = n.deploy_total, deploy_completed = n.deploy_completed, deploy_failed = n.deploy_failed,
        updated_at = date_trunc('second', clerk_now())
    from expected_counters n
    where s.subdomain = p_subdomain and n.subdomain = s.subdomain;

    select * into v_site from sites s where s.subdomain = p_subdomain;
    if not clerk_run_is_active(v_site.run_id) then
        update pipeline_runs r set counters = clerk_counters(v_site) where r.run_id = v_site.run_id;
        return;
    end if;
    update sites s set coordinator_enqueued = false where s.subdomain = p_subdomain and s.coordinator_enqueued;
    if clerk_should_trigger_coordinator(p_subdomain, v_site.current_stage) then
        update sites s set coordinator_enqueued = true where s.subdomain = p_subdomain;
        if exists (select from missing_coordinators c where c.subdomain = p_subdomain) then
            perform clerk_defer_coordinator(p_subdomain, v_site.run_id, clerk_phase(v_site.current_stage));
        end if;
    end if;
end;
$$;
