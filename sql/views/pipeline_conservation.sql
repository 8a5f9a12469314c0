-- needs: 0011
-- Run every minute, so it reads what moves: open units, sites in motion, jobs that ended a moment ago. All
-- else is for pipeline_conservation_full. Most of it are the very views that reconciliation mends from. `waiting` is none
-- of the design's invariants: the books are right, and still nobody would ever go on.
create view pipeline_conservation as
select e.invariant, e.subdomain, e.run_id, e.stage, e.problem
from wrong_ends e
union all
select 'waiting', j.subdomain, j.run_id, null, format('job %s waits although its run is over', j.job_id)
from stale_jobs j
union all
select 'I2', m.subdomain, m.run_id, m.stage, m.problem
from miscounted_sites m
where m.in_motion
union all
select 'I3', t.subdomain, t.run_id, null, t.problem
from wrong_transitions t
union all
select 'I4', r.subdomain, r.run_id, r.stage, r.problem
from lost_runs r
union all
select 'I4', m.subdomain, m.run_id, m.current_stage, format('the site says %s, and its run is in phase %s', coalesce(m.current_stage, 'nothing'), m.phase)
from misplaced_sites m
union all
select 'waiting', u.subdomain, u.run_id, u.stage, format('content item %s is %s, and no job will do it', u.content_item_id, u.status)
from orphaned_units u
union all
select 'waiting', c.subdomain, c.run_id, c.stage, format('phase %s is complete, and nobody ends it', c.phase)
from lost_coordinators c
union all
select 'waiting', j.subdomain, null, j.queue_name, format('job %s is held back although nothing is paused', j.job_id)
from stranded_jobs j
union all
select 'waiting', f.subdomain, f.run_id, null, 'documents were healed after their phase, and nobody compiles them'
from forgotten_refreshes f
union all
select 'I5', p.subdomain, p.run_id, 'deploy', format('publication %s gave %s the content that it had', p.publication_id, p.deployer)
from repeated_publications p
where p.moved_at > clerk_now() - interval '1 hour'
union all
select 'I7', e.subdomain, null, e.stage, format('job %s runs without a live lease (%s)', e.job_id, coalesce(e.holder, 'nobody'))
from expired_claims e
union all
select 'I8', x.subdomain, null, x.stage, x.problem
from contradicted_results x
where x.job_id in (select e.job_id from procrastinate_events e
                   where e.id >= clerk_first_event_since(clerk_now() - interval '15 minutes')
                     and e.type in ('succeeded', 'failed', 'cancelled', 'aborted'));

comment on view pipeline_conservation is
    'A row per broken invariant that SQL can see among all that moves; empty when all is well.';
