-- needs: 0018
create view recent_errors as
select l.updated_at as at, i.subdomain, l.pipeline as stage, l.content_item_id, i.kind, i.meeting, i.date,
       l.status, l.attempt_count, l.error_code, l.error_message, l.run_id
from content_item_pipeline_state l
join content_items i on i.id = l.content_item_id
where l.status in ('failed_retryable', 'failed_terminal') and l.updated_at >= clerk_now() - interval '7 days'
  and l.error_code is distinct from 'RunCancelled'
union all
select i.fetch_failed_at, i.subdomain, 'fetch', i.id, i.kind, i.meeting, i.date,
       'not fetched', null, i.fetch_error_code, i.fetch_error_message, null
from content_items i
where i.fetch_failed_at >= clerk_now() - interval '7 days' and i.fetch_error_code is not null
  -- OCR of a document that could not be fetched fails with the same error: listed once.
  and not exists (select from content_item_pipeline_state l
                  where l.content_item_id = i.id and l.pipeline = 'ocr'
                    and l.status in ('failed_retryable', 'failed_terminal')
                    and l.updated_at >= i.fetch_failed_at)
order by 1 desc;

comment on view recent_errors is 'Failures of the last seven days that have not succeeded since, newest first.';
comment on column recent_errors.status is
    'failed_terminal, failed_retryable (will be retried), or "not fetched": the download failed.';
