-- needs: 0018
create view jobs_last_minute as
select p.stage, count(e.type) filter (where e.type = 'succeeded') as succeeded,
       count(e.type) filter (where e.type = 'failed') as failed, coalesce(sum(e.pages), 0) as pages
from stage_policy p
left join (
    select j.queue_name, e.type, i.page_count as pages
    from procrastinate_events e
    join procrastinate_jobs j on j.id = e.job_id
    -- The stages that process documents; other jobs have no such argument, and arguments are not validated.
    left join content_items i on e.type = 'succeeded'
        and i.id = case when j.args ->> 'content_item_id' ~ '^[0-9]{1,18}$' then (j.args ->> 'content_item_id')::bigint end
    where e.id >= clerk_first_event_since(clerk_now() - interval '1 minute')
      and e.at >= clerk_now() - interval '1 minute' and e.type in ('succeeded', 'failed')
) e on e.queue_name = p.stage
group by p.stage;

comment on view jobs_last_minute is 'Per stage: jobs that ended in the last minute.';
comment on column jobs_last_minute.pages is 'Pages of the documents whose jobs succeeded; 0 in stages of whole sites.';
comment on column jobs_last_minute.failed is 'Permanently failed; a job that will be retried has not ended.';
