-- needs: 0017
create view recent_events as
select r.started_at as at, 'run started' as kind, r.subdomain, r.reason as what
from pipeline_runs r
where r.ended_at is null and r.started_at >= clerk_now() - interval '7 days'
union all
select r.ended_at, 'run ended', r.subdomain, concat_ws(': ', r.outcome, r.outcome_reason)
from pipeline_runs r
where r.ended_at is not null and r.ended_at >= clerk_now() - interval '7 days'
union all
select l.at, case when l.error is null then 'repair' else 'failed repair' end, l.subdomain,
       concat_ws(': ', l.found, coalesce(l.error, l.done))
from reconcile_log l
where l.at >= clerk_now() - interval '7 days'
union all
select a.at, a.action || ' by ' || a.actor, a.subdomain, a.via
from operator_actions a
where a.at >= clerk_now() - interval '7 days'
order by 1 desc;

comment on view recent_events is
    'What happened in the last seven days, the newest first: runs that began and are going, runs that ended, repairs, what operators did.';
comment on column recent_events.what is 'Why the run began, how it ended, what was found and what came of it, or by what means the operator did it.';
