-- needs: 0026
create view open_units as
select i.subdomain, l.run_id, l.pipeline as stage, l.content_item_id, i.kind, i.meeting, i.date, l.status,
       l.attempt_count, p.max_attempts, l.error_code, l.error_message, l.reopened_at,
       j.id as job_id, j.queue_name as queue, j.priority, j.turn, j.status::text as job_status,
       nullif(j.scheduled_at, clerk_paused_until()) as scheduled_at,
       j.worker_id, c.holder, c.claimed_at, c.lease_until, c.progress, c.progress_total, c.progress_at,
       case when j.id is null then 'orphaned'
            when j.status = 'doing' then case when c.lease_until > clerk_now() then 'running' else 'lost' end
            when j.scheduled_at = clerk_paused_until() then 'paused'
            when j.scheduled_at > clerk_now() then 'later'
            else 'waiting' end as state
from (
    select o.* from content_item_pipeline_state o where o.status in ('pending', 'in_progress', 'failed_retryable')
    union all
    -- Late units: retried after their phase.
    select o.* from content_item_pipeline_state o where o.status = 'failed_terminal' and o.reopened_at is not null
) l
join content_items i on i.id = l.content_item_id
join stage_policy p on p.stage = l.pipeline
left join procrastinate_jobs j on j.id = l.job_id and j.status in ('todo', 'doing')
left join job_claims c on c.job_id = j.id and j.status = 'doing' and c.settled_as is null
where l.reopened_at is null or j.id is not null;

comment on view open_units is 'Open units and late units: where the job of each waits or runs, and which worker holds it.';
comment on column open_units.job_id is 'NULL: its job ended or was deleted without accounting, and reconciliation will defer a new one.';
comment on column open_units.state is
    'running; lost: running without a live lease; waiting: for a worker; later: for the time of its retry; paused; orphaned: no job.';
comment on column open_units.lease_until is 'NULL for a running job: no worker holds it.';
