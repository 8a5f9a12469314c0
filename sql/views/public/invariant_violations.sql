-- needs: 0017
-- Run every minute, so it reads what moves: open units, sites in motion, jobs that ended a moment ago. All
-- else is for invariant_violations_full. Most of it are the very views that reconciliation mends from. `waiting` is none
-- of the design's invariants: the books are right, and still nobody would ever go on.
create view invariant_violations as
select e.invariant, e.subdomain, e.run_id, e.stage, e.problem
from run_end_mismatches e
union all
select 'waiting', j.subdomain, j.run_id, null, format('job %s waits although its run is over', j.job_id)
from stale_jobs j
union all
select 'I2', m.subdomain, m.run_id, m.stage, m.problem
from counter_mismatches m
where m.in_motion
union all
select 'I3', t.subdomain, t.run_id, null, t.problem
from transition_mismatches t
union all
select 'I4', r.subdomain, r.run_id, r.stage, r.problem
from dangling_runs r
union all
select 'I4', m.subdomain, m.run_id, m.current_stage, format('the site says %s, and its run is in phase %s', coalesce(m.current_stage, 'nothing'), m.phase)
from phase_mismatches m
union all
select 'waiting', u.subdomain, u.run_id, u.stage, format('content item %s is %s, and no job will do it', u.content_item_id, u.status)
from orphaned_units u
union all
select 'waiting', c.subdomain, c.run_id, c.stage, format('phase %s is complete, and nobody ends it', c.phase)
from missing_coordinators c
union all
select 'waiting', j.subdomain, null, j.queue_name, format('job %s is held back although nothing is paused', j.job_id)
from wrongly_paused_jobs j
union all
select 'waiting', f.subdomain, f.run_id, null, 'documents were healed after their phase, and nobody compiles them'
from missing_refreshes f
union all
select 'I5', p.subdomain, p.run_id, 'deploy', format('publication %s gave %s the content that it had', p.publication_id, p.deployer)
from duplicate_publications p
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

comment on view invariant_violations is
    'A row per broken invariant that SQL can see among all that moves; empty when all is well.';
