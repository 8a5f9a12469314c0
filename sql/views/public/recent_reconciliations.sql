-- needs: 0018
create view recent_reconciliations as
select p.started_at, p.ended_at, extract(epoch from p.ended_at - p.started_at)::double precision as seconds,
       p.actor, p.via, p.subdomain, p.found, p.repaired, p.failed, p.abandoned
from reconcile_runs p
where p.started_at >= clerk_now() - interval '7 days'
order by p.started_at desc;

comment on view recent_reconciliations is 'Reconciliations of the last seven days, newest first.';
comment on column recent_reconciliations.ended_at is 'NULL: in progress, or interrupted.';
comment on column recent_reconciliations.via is 'worker (every 15 minutes), cli (a timer or a person), dashboard.';
comment on column recent_reconciliations.subdomain is 'NULL: all sites.';
comment on column recent_reconciliations.found is 'Planned repairs. Those that were no longer needed when applied are counted here only.';
comment on column recent_reconciliations.abandoned is 'Runs that were ended as failed because the same repair had made no progress three times.';
