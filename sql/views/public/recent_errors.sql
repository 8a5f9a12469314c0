-- needs: 0017
create view recent_errors as
select l.updated_at as at, i.subdomain, l.pipeline as stage, l.content_item_id, i.kind, i.meeting, i.date,
       l.status, l.attempt_count, l.error_code, l.error_message, l.run_id
from content_item_pipeline_state l
join content_items i on i.id = l.content_item_id
where l.status in ('failed_retryable', 'failed_terminal') and l.updated_at >= clerk_now() - interval '7 days'
union all
select i.fetch_failed_at, i.subdomain, 'fetch', i.id, i.kind, i.meeting, i.date,
       'not fetched', null, i.fetch_error_code, i.fetch_error_message, null
from content_items i
where i.fetch_failed_at >= clerk_now() - interval '7 days' and i.fetch_error_code is not null
  -- When its turn to be read comes it fails with that same reason, and counts once.
  and not exists (select from content_item_pipeline_state l
                  where l.content_item_id = i.id and l.pipeline = 'ocr'
                    and l.status in ('failed_retryable', 'failed_terminal')
                    and l.updated_at >= i.fetch_failed_at)
order by 1 desc;

comment on view recent_errors is 'What failed in the last seven days and has not been mended since, the newest first.';
comment on column recent_errors.status is
    'failed_terminal, failed_retryable (another attempt comes), or "not fetched": the source did not give the document.';
