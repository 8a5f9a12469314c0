-- needs: 0017
create view recent_repairs as
select r.at, r.kind, r.subdomain, r.run_id, r.stage, r.found, r.done, r.why, r.error, r.id, r.reconciliation,
       r.actor, r.before, r.after
from reconcile_log r
where r.at >= clerk_now() - interval '7 days'
order by r.at desc;

comment on view recent_repairs is 'What reconciliation mended in the last seven days, the newest first.';
comment on column recent_repairs.kind is 'A word for what was found; lease: a job rescued from a lost worker.';
comment on column recent_repairs.error is 'Why the repair failed; NULL if it was made.';
comment on column recent_repairs.reconciliation is 'Repairs of one pass share this.';
comment on column recent_repairs.before is 'The rows that it is about, as they were; after: as they are since.';
