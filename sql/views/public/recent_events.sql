-- needs: 0018
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
    'Events of the last seven days, newest first: active runs that started, runs that ended, repairs, operator actions.';
comment on column recent_events.what is 'Why the run started, its outcome, what the repair found and did, or the interface of the operator action.';
