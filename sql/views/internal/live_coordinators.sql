-- needs: 0018
-- Found by the queueing lock, not by pipeline_transitions.coordinator_job_id: an operator may retry an older one of the
-- phase. One part per status, because each uses another partial index.
create view live_coordinators as
select j.id as job_id, j.queueing_lock, j.status, j.queue_name, j.priority, j.attempts, j.scheduled_at, j.worker_id
from procrastinate_jobs j
where j.task_name = 'clerk.coordinate' and j.status = 'todo'
union all
select j.id, j.queueing_lock, j.status, j.queue_name, j.priority, j.attempts, j.scheduled_at, j.worker_id
from procrastinate_jobs j
where j.task_name = 'clerk.coordinate' and j.status = 'doing';

comment on view live_coordinators is 'Coordinators that wait or run. Of one phase at most one waits, and several may run.';
