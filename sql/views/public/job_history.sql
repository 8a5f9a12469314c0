-- needs: 0018
create view job_history as
select e.job_id, e.id as event_id, e.at, e.type::text as type
from procrastinate_events e
order by e.id;

comment on view job_history is 'Events of a job, in order. Filter by job_id.';
comment on column job_history.at is 'When it happened; for scheduled, when the job starts.';
comment on column job_history.type is
    'deferred (created), started, deferred_for_retry, succeeded, failed, cancelled, abort_requested, aborted, scheduled, retried (by an operator).';
