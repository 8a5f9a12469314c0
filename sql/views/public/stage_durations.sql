-- needs: 0018
create view stage_durations as
with phase as (
    select t.phase, count(*) as runs,
           percentile_cont(0.5) within group (order by t.advanced_at - coalesce(before.advanced_at, r.started_at)) as median,
           percentile_cont(0.9) within group (order by t.advanced_at - coalesce(before.advanced_at, r.started_at)) as p90,
           max(t.advanced_at - coalesce(before.advanced_at, r.started_at)) as longest
    from pipeline_runs r
    join pipeline_transitions t on t.run_id = r.run_id and t.advanced_at is not null
    left join pipeline_transitions before on before.run_id = t.run_id and before.phase = t.phase - 1
    where r.ended_at >= clerk_now() - interval '1 day'
    group by t.phase
), job as (
    select j.queue_name as stage, count(*) as jobs,
           percentile_cont(0.5) within group (order by c.settled_at - c.claimed_at) as median,
           percentile_cont(0.9) within group (order by c.settled_at - c.claimed_at) as p90,
           percentile_cont(0.5) within group (order by c.claimed_at - w.since) as wait_median,
           percentile_cont(0.9) within group (order by c.claimed_at - w.since) as wait_p90
    from procrastinate_events e
    join procrastinate_jobs j on j.id = e.job_id
    join job_claims c on c.job_id = e.job_id
    left join lateral (
        select greatest(max(d.at), case when j.scheduled_at <= c.claimed_at then j.scheduled_at end) as since
        from procrastinate_events d
        where d.job_id = e.job_id and d.type in ('deferred', 'deferred_for_retry', 'retried') and d.at <= c.claimed_at
    ) w on true
    where e.id >= clerk_first_event_since(clerk_now() - interval '1 hour')
      and e.at >= clerk_now() - interval '1 hour' and e.type in ('succeeded', 'failed')
      and c.settled_at >= c.claimed_at
    group by j.queue_name
)
select s.stage, coalesce(p.runs, 0) as runs, p.median, p.p90, p.longest,
       coalesce(j.jobs, 0) as jobs, j.median as job_median, j.p90 as job_p90, j.wait_median, j.wait_p90
from stage_policy s
left join phase p on p.phase = s.phase
left join job j on j.stage = s.stage;

comment on view stage_durations is
    'Per stage: how long sites take for it (runs that ended in the last day), and how long its jobs run and wait (last hour).';
comment on column stage_durations.median is
    'From the start of the phase to its end; compilation and extraction are one phase. Likewise p90, longest.';
comment on column stage_durations.job_median is 'Duration of a job from its last claim to its end. Likewise job_p90.';
comment on column stage_durations.wait_median is 'Time from when a job was due until it was claimed. Likewise wait_p90.';
