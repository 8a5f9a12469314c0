-- needs: 0018
-- Defers the coordinator of a complete phase. Returns its job, or NULL if one already waits. Called with the site's row
-- locked and the site in that phase, so an advance recorded for it did not happen and is cleared.
create or replace function clerk_defer_coordinator(p_subdomain text, p_run_id bigint, p_phase integer)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_job_id bigint;
begin
    -- Not procrastinate_defer_jobs_v1, which has no ON CONFLICT: one waiting coordinator is enough.
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
