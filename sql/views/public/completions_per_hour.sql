-- needs: 0017
create view completions_per_hour as
select date_trunc('hour', r.ended_at) as hour, n.stage, sum(n.completed) as completed, sum(n.failed) as failed
from pipeline_runs r
cross join lateral (values
    ('fetch', r.fetch_completed, r.fetch_failed),
    ('ocr', r.ocr_completed, r.ocr_failed),
    ('compilation', r.compilation_completed, r.compilation_failed),
    ('extraction', r.extraction_completed, r.extraction_failed),
    ('deploy', r.deploy_completed, r.deploy_failed),
    ('completed', (r.outcome <> 'failed')::integer, (r.outcome = 'failed')::integer)
) as n (stage, completed, failed)
where r.ended_at >= date_trunc('hour', clerk_now() - interval '7 days')
group by 1, 2;

comment on view completions_per_hour is
    'What came of the runs that ended in each hour of the last seven days, by stage. Hours in which none ended are absent.';
comment on column completions_per_hour.stage is 'One of the five, counting units, or "completed", counting the runs themselves.';
comment on column completions_per_hour.completed is
    'Counted in the hour in which the run ended; what goes on right now is in queue_backlog.rate_per_hour.';
