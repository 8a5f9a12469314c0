-- needs: 0017
-- The coordinator of a finished phase. The row in pipeline_transitions is the exactly-once proof; deferring the
-- same coordinator again (a lost one) only counts up there. Called with the site's row locked, and with the site in
-- that phase: an advance out of it that is on record did not happen.
create or replace function clerk_defer_coordinator(p_subdomain text, p_run_id bigint, p_phase integer)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_job_id bigint;
begin
    -- No procrastinate_defer_jobs_v1: it knows no ON CONFLICT, and a coordinator that still waits is enough.
    insert into procrastinate_jobs (queue_name, task_name, priority, queueing_lock, args)
    values ('coordinator', 'clerk.coordinate', 100, format('clerk.coordinate:%s:%s', p_run_id, p_phase),
            jsonb_build_object('subdomain', p_subdomain, 'run_id', p_run_id, 'phase', p_phase))
    on conflict (queueing_lock) where status = 'todo' do nothing
    returning id into v_job_id;

    insert into pipeline_transitions as t (run_id, phase, claimed_at, last_deferred_at, coordinator_job_id)
    values (p_run_id, p_phase, clerk_now(), clerk_now(), v_job_id)
    on conflict (run_id, phase) do update
    set deferred_count = t.deferred_count + 1, last_deferred_at = excluded.last_deferred_at, advanced_at = null,
        coordinator_job_id = coalesce(excluded.coordinator_job_id, t.coordinator_job_id);
    return v_job_id;
end;
$$;
