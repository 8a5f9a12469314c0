-- needs: 0026
create view waiting_jobs as
select j.id as job_id, j.queue_name as queue, j.priority, j.task_name, j.args ->> 'subdomain' as subdomain,
       nullif(j.scheduled_at, clerk_paused_until()) as scheduled_at,
       case when j.scheduled_at = clerk_paused_until() then 'paused'
            when j.scheduled_at > clerk_now() then 'later'
            else 'waiting' end as state,
       j.queueing_lock, j.turn
from procrastinate_jobs j
where j.status = 'todo';

comment on view waiting_jobs is 'Waiting jobs: for a worker, for their scheduled time (later) or for the end of a pause (paused).';
comment on column waiting_jobs.turn is
    'Jobs of equal priority are fetched in order of turn, then of job_id; 0: before all that wait for their turn. NULL: paused.';
