-- needs: 0018
create view completions_per_hour as
select date_trunc('hour', r.ended_at) as hour, n.stage, sum(n.completed) as completed, sum(n.failed) as failed
from pipeline_runs r
cross join lateral (
    select c.key as stage, (c.value ->> 'completed')::integer as completed, (c.value ->> 'failed')::integer as failed
    from jsonb_each(r.counters) c
    union all
    select 'completed', (r.outcome <> 'failed')::integer, (r.outcome = 'failed')::integer
) n
where r.ended_at >= date_trunc('hour', clerk_now() - interval '7 days')
group by 1, 2;

comment on view completions_per_hour is
    'Per hour and stage: units of the runs that ended in that hour, for the last seven days. Hours in which no run ended are absent.';
comment on column completions_per_hour.stage is 'One of the five stages, counting units, or "completed", counting runs.';
comment on column completions_per_hour.completed is
    'Counted in the hour in which the run ended; for the current rate see queue_backlog.rate_per_hour.';
