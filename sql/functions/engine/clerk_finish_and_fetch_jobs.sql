-- needs: 0020
-- clerk_finish_jobs and clerk_fetch_jobs in one transaction and one round trip. Returns the finished jobs that were
-- accepted (`succeeded`, id only) and the new ones (`doing`). A site that is locked for long must not delay the results of
-- the others: raises 55P03 then, and the worker finishes the jobs of each site on their own.
create or replace function clerk_finish_and_fetch_jobs(
    p_jobs bigint[], p_attempt integer, p_queues text[], p_worker_id bigint, p_slots integer
) returns table (
    id bigint, status procrastinate_job_status, task_name text, priority integer, lock text, queueing_lock text,
    args jsonb, scheduled_at timestamptz, queue_name text, attempts integer, worker_id bigint
)
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
set lock_timeout = '100ms'
as $$
begin
    if p_jobs <> '{}' then
        return query
        select f, 'succeeded'::procrastinate_job_status, ''::text, 0, null::text, null::text, '{}'::jsonb,
               null::timestamptz, ''::text, p_attempt, null::bigint
        from clerk_finish_jobs(p_jobs, p_attempt) f;
    else
        -- A claim that is lost in a crash of the server is a job that waits again, and its worker is fenced.
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if p_slots > 0 then
        return query
        select j.id, j.status, j.task_name::text, j.priority, j.lock, j.queueing_lock, j.args, j.scheduled_at,
               j.queue_name::text, j.attempts, j.worker_id
        from clerk_fetch_jobs(p_queues, p_worker_id, p_slots) j;
    end if;
end;
$$;
