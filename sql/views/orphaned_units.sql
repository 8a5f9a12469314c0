-- needs: 0006
create view orphaned_units as
select i.subdomain, s.run_id, l.pipeline as stage, l.content_item_id, l.status, l.job_id, l.updated_at
from content_item_pipeline_state l
join content_items i on i.id = l.content_item_id
join sites s on s.subdomain = i.subdomain and s.run_id = l.run_id
where l.status in ('pending', 'in_progress', 'failed_retryable')
  and not exists (select from procrastinate_jobs j where j.id = l.job_id and j.status in ('todo', 'doing'));

comment on view orphaned_units is 'Open units of a present run whose job is neither waiting nor running.';
