-- needs: 0018
create view stale_jobs as
select j.id as job_id, j.queue_name, a.subdomain, a.run_id
from procrastinate_jobs j
cross join lateral (
    select j.args ->> 'subdomain' as subdomain,
           case when j.args ->> 'run_id' ~ '^[0-9]{1,18}$' then (j.args ->> 'run_id')::bigint end as run_id
) a
left join pipeline_runs r on r.run_id = a.run_id
where j.status = 'todo' and a.run_id is not null and (r.run_id is null or r.ended_at is not null)
  -- A late unit is processed after the end of its run.
  and not exists (
      select from content_item_pipeline_state l
      where l.content_item_id = case when j.args ->> 'content_item_id' ~ '^[0-9]{1,18}$'
                                     then (j.args ->> 'content_item_id')::bigint end
        and l.pipeline = j.args ->> 'stage' and l.job_id = j.id and l.reopened_at is not null
  );

comment on view stale_jobs is 'Waiting jobs of runs that have ended: their results would be stale.';
