-- needs: 0009
create view completions_per_hour as
select date_trunc('hour', e.at) as hour, j.queue_name as stage,
       count(*) filter (where e.type = 'succeeded') as completed,
       count(*) filter (where e.type = 'failed') as failed
from procrastinate_events e
join procrastinate_jobs j on j.id = e.job_id
join stage_policy p on p.stage = j.queue_name
where e.id >= clerk_first_event_since(clerk_now() - interval '1 day')
  and e.at >= clerk_now() - interval '1 day' and e.type in ('succeeded', 'failed')
group by 1, 2
union all
select date_trunc('hour', r.ended_at), 'completed',
       count(*) filter (where r.outcome <> 'failed'),
       count(*) filter (where r.outcome = 'failed')
from pipeline_runs r
where r.ended_at >= clerk_now() - interval '1 day'
group by 1;

comment on view completions_per_hour is
    'What ended in each hour of the last day, by stage; the stage "completed" counts whole runs. Hours without any are absent.';
comment on column completions_per_hour.completed is
    'Jobs that succeeded, as long as they are kept (CLERK_KEEP_JOBS_HOURS); for the stage "completed" runs that did not fail.';
