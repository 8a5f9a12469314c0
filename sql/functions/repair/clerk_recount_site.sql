-- needs: 0017
-- Sets the site's counters to what the ledger says of its present run, those of the run's history too if it has
-- ended, and the claim of the coordinator to what follows: claimed if the phase is complete, with a coordinator on its way;
-- unclaimed if it is not. Stages of phases to come stay at zero.
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
        update pipeline_runs r
        set fetch_total = v_site.fetch_total, fetch_completed = v_site.fetch_completed, fetch_failed = v_site.fetch_failed,
            ocr_total = v_site.ocr_total, ocr_completed = v_site.ocr_completed, ocr_failed = v_site.ocr_failed,
            compilation_total = v_site.compilation_total, compilation_completed = v_site.compilation_completed,
            compilation_failed = v_site.compilation_failed,
            extraction_total = v_site.extraction_total, extraction_completed = v_site.extraction_completed,
            extraction_failed = v_site.extraction_failed,
            deploy_total = v_site.deploy_total, deploy_completed = v_site.deploy_completed,
            deploy_failed = v_site.deploy_failed
        where r.run_id = v_site.run_id;
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
