-- needs: 0018
create view failing_documents as
select i.subdomain, l.pipeline as stage, l.content_item_id, i.kind, i.meeting, i.date, l.status, l.attempt_count,
       l.error_code, l.error_message, l.last_attempt_at, l.run_id, l.job_id
from content_item_pipeline_state l
join content_items i on i.id = l.content_item_id
where l.status in ('failed_terminal', 'failed_retryable') and l.error_code is distinct from 'RunCancelled';

comment on view failing_documents is 'Units whose last attempt failed, permanently or to be retried, and why; not those of a run that an operator cancelled.';
comment on column failing_documents.job_id is 'The job of the last attempt; it may have been deleted since (job_overview).';
