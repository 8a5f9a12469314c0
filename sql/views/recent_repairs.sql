-- needs: 0009
create view recent_repairs as
select r.at, r.subdomain, r.run_id, r.stage, r.found, r.done, r.why
from reconcile_log r
where r.at >= clerk_now() - interval '7 days'
order by r.at desc;

comment on view recent_repairs is 'What reconciliation mended in the last seven days, the newest first.';
