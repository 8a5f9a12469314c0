-- needs: 0022
-- Takes a job from a worker whose lease has expired: another attempt, or failed if there are none left. The lease is
-- read again after the job is locked, because its holder may have renewed it. Returns 'rescued', 'failed' or 'left
-- alone'.
create or replace function clerk_rescue_job(p_job_id bigint) returns text
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_job procrastinate_jobs;
    v_claim job_claims;
    v_max_attempts integer;
begin
    perform set_config('clerk.actor', 'clerk_rescue_job', true);
    perform set_config('clerk.error_code', 'WorkerLost', true);
    perform set_config('clerk.error_message', 'the worker died, froze or ran past its time limit', true);
    select * into v_job from procrastinate_jobs j where j.id = p_job_id and j.status = 'doing' for update skip locked;
    if not found then
        return 'left alone';
    end if;
    select * into v_claim from job_claims c where c.job_id = p_job_id;
    if found and v_claim.settled_as is null and v_claim.lease_until > clerk_now() then
        return 'left alone';
    end if;
    v_max_attempts := coalesce((select p.max_attempts from stage_policy p where p.stage = v_job.args ->> 'stage'), 10);
    if not v_job.abort_requested and v_job.attempts + 1 - coalesce(v_claim.uncounted_attempts, 0) < v_max_attempts then
        begin
            update procrastinate_jobs j
            set status = 'todo', attempts = j.attempts + 1, scheduled_at = null
            where j.id = p_job_id;
            perform clerk_notify_queue(v_job.queue_name);
            return 'rescued';
        exception
            -- A job with the same queueing lock already waits (a periodic task, a coordinator): one is enough.
            when unique_violation then null;
        end;
    end if;
    -- It was asked to abort, or has no attempt left.
    update procrastinate_jobs j
    set status = case when v_job.abort_requested then 'aborted' else 'failed' end::procrastinate_job_status,
        attempts = j.attempts + 1, abort_requested = false
    where j.id = p_job_id;
    return 'failed';
end;
$$;
