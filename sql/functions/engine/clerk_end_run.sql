-- needs: 0030
-- Ends a run. Its open units fail with the reason; their waiting jobs are cancelled, their running jobs are asked to
-- abort. Job rows that another session has locked are skipped, never waited for: their results will be stale. Called
-- with the site's row locked.
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
        -- The counters of the site belong to its current run only.
        counters = case when s.run_id = r.run_id then clerk_counters(s) end
    from sites s
    where s.subdomain = p_subdomain and r.run_id = p_run_id and r.ended_at is null;

    update sites s
    set current_stage = 'completed', outcome = p_outcome, coordinator_enqueued = false,
        -- Legacy clerk recorded an empty source as an error of fetch, and people look for it there.
        last_error_stage = case p_outcome when 'no_documents' then 'fetch' else s.last_error_stage end,
        last_error_message = case p_outcome when 'no_documents' then 'NoDocuments' || ': the source has no documents'
                                            else s.last_error_message end,
        last_error_at = case p_outcome when 'no_documents' then clerk_now() else s.last_error_at end,
        -- A cancelled run says nothing about the site.
        failing_since = case when p_outcome in ('succeeded', 'unchanged') then null
                             when p_outcome = 'cancelled' then s.failing_since
                             else coalesce(s.failing_since, clerk_now()) end,
        updated_at = date_trunc('second', clerk_now())
    where s.subdomain = p_subdomain and s.run_id = p_run_id;

    if (select s.dirty from sites s where s.subdomain = p_subdomain) then
        perform clerk_defer_refresh(p_subdomain);
    end if;
end;
$$;
