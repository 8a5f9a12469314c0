-- needs: 0017
create view recent_reconciliations as
select p.started_at, p.ended_at, extract(epoch from p.ended_at - p.started_at)::double precision as seconds,
       p.actor, p.via, p.subdomain, p.found, p.repaired, p.failed, p.given_up
from reconcile_runs p
where p.started_at >= clerk_now() - interval '7 days'
order by p.started_at desc;

comment on view recent_reconciliations is 'Every reconciliation of the last seven days, whatever it found, the newest first.';
comment on column recent_reconciliations.ended_at is 'NULL: it is going on, or was cut short.';
comment on column recent_reconciliations.via is 'worker (every 15 minutes), cli (a timer, or somebody), dashboard.';
comment on column recent_reconciliations.subdomain is 'NULL: all sites were looked at.';
comment on column recent_reconciliations.found is 'What was planned; what had healed by itself meanwhile is counted nowhere else.';
comment on column recent_reconciliations.given_up is 'Runs that were ended because the same repair had led nowhere three times.';
