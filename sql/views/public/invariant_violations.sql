-- needs: 0018
-- Queried every minute, so it reads only what changes: open units, active and recently changed sites, jobs that ended
-- in the last minutes. invariant_violations_full reads everything. Reconciliation repairs from the same views.
-- `waiting` is not one of the design's invariants: the state is consistent, but nothing would ever continue it.
create view invariant_violations as
select m.invariant, m.subdomain, m.run_id, m.stage, m.problem
from run_mismatches m
union all
select m.invariant, m.subdomain, m.run_id, m.stage, m.problem
from counter_mismatches m
where m.recently_changed
union all
select 'waiting', j.subdomain, j.run_id, null, format('job %s is waiting although its run has ended', j.job_id)
from stale_jobs j
union all
select 'waiting', u.subdomain, u.run_id, u.stage, format('content item %s is %s and has no job', u.content_item_id, u.status)
from orphaned_units u
union all
select 'waiting', c.subdomain, c.run_id, c.stage, format('phase %s is complete and has no coordinator', c.phase)
from missing_coordinators c
union all
select 'waiting', j.subdomain, null, j.queue_name, format('job %s is paused although neither its queue nor its site is', j.job_id)
from wrongly_paused_jobs j
union all
select 'waiting', f.subdomain, f.run_id, null, 'the site is dirty and has no refresh job'
from missing_refreshes f
union all
select 'I5', p.subdomain, p.run_id, 'deploy', format('publication %s repeated the content that %s already had', p.publication_id, p.deployer)
from duplicate_publications p
where p.site_updated_at > clerk_now() - interval '1 hour'
union all
select 'I7', e.subdomain, null, e.stage, format('job %s is running without a live lease (holder: %s)', e.job_id, coalesce(e.holder, 'none'))
from expired_claims e
union all
select 'I8', c.subdomain, null, c.stage, c.problem
from claim_mismatches c
where c.job_id in (select e.job_id from procrastinate_events e
                   where e.id >= clerk_first_event_since(clerk_now() - interval '15 minutes')
                     and e.type in ('succeeded', 'failed', 'cancelled', 'aborted'));

comment on view invariant_violations is
    'One row per violated invariant that SQL can detect among active and recent rows; normally empty.';
