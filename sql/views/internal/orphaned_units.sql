-- needs: 0018
create view orphaned_units as
select i.subdomain, l.run_id, l.pipeline as stage, l.content_item_id, l.status, l.job_id, l.updated_at,
       clerk_phase(l.pipeline) < clerk_phase(s.current_stage) as late
from content_item_pipeline_state l
join content_items i on i.id = l.content_item_id
join sites s on s.subdomain = i.subdomain and s.run_id = l.run_id
join pipeline_runs r on r.run_id = l.run_id and r.ended_at is null
where l.status in ('pending', 'in_progress', 'failed_retryable')
  and not exists (select from procrastinate_jobs j where j.id = l.job_id and j.status in ('todo', 'doing'))
union all
select i.subdomain, l.run_id, l.pipeline, l.content_item_id, l.status, l.job_id, l.updated_at, true
from content_item_pipeline_state l
join content_items i on i.id = l.content_item_id
where l.reopened_at is not null and l.status = 'failed_terminal'
  and not exists (select from procrastinate_jobs j where j.id = l.job_id and j.status in ('todo', 'doing'));

comment on view orphaned_units is
    'Open units of active runs, and late units, whose job is neither waiting nor running.';
comment on column orphaned_units.late is 'The phase of the unit has ended, so the run does not wait for it.';
