-- needs: 0017
-- The end of a run, however it came. Units that are still open end as failed, with the reason; their jobs are
-- cancelled where they wait and asked to stop where they run. Job rows that somebody else holds are passed
-- over, never waited for: what they report later is stale. Called with the site's row locked.
create or replace function clerk_end_run(
    p_subdomain text, p_run_id bigint, p_outcome text, p_reason text, p_error_code text default 'RunEnded'
) returns void
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_jobs bigint[];
    v_stage text;
    v_count integer;
begin
    perform set_config('clerk.actor', 'clerk_end_run', true);
    for v_stage, v_count, v_jobs in
        with closed as (
            update content_item_pipeline_state l
            set status = 'failed_terminal', error_code = p_error_code, error_message = left(p_reason, 500),
                updated_at = clerk_now()
            from content_items i
            where i.subdomain = p_subdomain and l.content_item_id = i.id and l.run_id = p_run_id
              and l.status in ('pending', 'in_progress', 'failed_retryable')
            returning l.pipeline, l.job_id
        )
        select closed.pipeline, count(*), array_agg(closed.job_id) from closed group by closed.pipeline
    loop
        perform clerk_add_to_counters(p_subdomain, p_run_id, v_stage, 0, v_count);
        perform clerk_stop_jobs(v_jobs);
    end loop;

    update pipeline_runs r
    set ended_at = clerk_now(), outcome = p_outcome, outcome_reason = p_reason,
        fetch_total = s.fetch_total, fetch_completed = s.fetch_completed, fetch_failed = s.fetch_failed,
        ocr_total = s.ocr_total, ocr_completed = s.ocr_completed, ocr_failed = s.ocr_failed,
        compilation_total = s.compilation_total, compilation_completed = s.compilation_completed,
        compilation_failed = s.compilation_failed,
        extraction_total = s.extraction_total, extraction_completed = s.extraction_completed,
        extraction_failed = s.extraction_failed,
        deploy_total = s.deploy_total, deploy_completed = s.deploy_completed, deploy_failed = s.deploy_failed
    from sites s
    where s.subdomain = p_subdomain and r.run_id = p_run_id and r.ended_at is null;

    update sites s
    set current_stage = 'completed', outcome = p_outcome, coordinator_enqueued = false,
        updated_at = date_trunc('second', clerk_now())
    where s.subdomain = p_subdomain and s.run_id = p_run_id;

    if (select s.dirty from sites s where s.subdomain = p_subdomain) then
        perform clerk_defer_refresh(p_subdomain);
    end if;
end;
$$;
