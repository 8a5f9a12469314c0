-- needs: 0009
create view pipeline_conservation_full as
select c.invariant, c.subdomain, c.run_id, c.stage, c.problem
from pipeline_conservation c
union all
select 'I2', m.subdomain, m.run_id, m.stage, m.problem
from miscounted_sites m
where not m.in_motion
union all
select 'I8', j.args ->> 'subdomain', null, j.args ->> 'stage',
       format('job %s is %s, and its claim was settled as %s', j.id, j.status, coalesce(c.settled_as, 'nothing'))
from procrastinate_jobs j
join job_claims c on c.job_id = j.id
where j.id not in (select e.job_id from procrastinate_events e
                   where e.id >= clerk_first_event_since(clerk_now() - interval '1 hour'))
  and j.status in ('succeeded', 'failed', 'aborted', 'cancelled') and c.settled_as is distinct from j.status::text;

comment on view pipeline_conservation_full is
    'Like pipeline_conservation, over everything there is: reads the whole ledger, so it is for nights and after a restore.';
