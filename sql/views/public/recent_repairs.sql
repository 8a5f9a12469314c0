-- needs: 0018
create view recent_repairs as
select r.at, r.kind, r.subdomain, r.run_id, r.stage, r.found, r.done, r.why, r.error, r.id, r.reconciliation,
       r.actor, r.before, r.after
from reconcile_log r
where r.at >= clerk_now() - interval '7 days'
order by r.at desc;

comment on view recent_repairs is 'Repairs of the last seven days, newest first.';
comment on column recent_repairs.kind is 'What was found, as a stable identifier; lease: a job without a live lease was rescued.';
comment on column recent_repairs.error is 'Why the repair failed; NULL if it was applied.';
comment on column recent_repairs.reconciliation is 'The same for all repairs of one reconciliation.';
comment on column recent_repairs.before is 'The rows concerned, before the repair; after: after it.';
