-- needs: 0009
-- Run every minute, so it reads what moves: open units, sites in motion, jobs that ended a moment ago. All
-- else is for pipeline_conservation_full.
create view pipeline_conservation as
select 'I1' as invariant, r.subdomain, l.run_id, l.pipeline as stage,
       format('content item %s is %s although its run has ended', l.content_item_id, l.status) as problem
from content_item_pipeline_state l
join pipeline_runs r on r.run_id = l.run_id
where l.status in ('pending', 'in_progress', 'failed_retryable') and r.ended_at is not null
union all
select 'I2', m.subdomain, m.run_id, m.stage, m.problem
from miscounted_sites m
where m.in_motion
union all
select 'I3', s.subdomain, s.run_id, s.current_stage,
       format('the run is in phase %s, and phase %s before it has no accepted advance', clerk_phase(s.current_stage), t.phase)
from sites s
join pipeline_transitions t on t.run_id = s.run_id
where t.advanced_at is null and t.phase < clerk_phase(s.current_stage)
union all
select 'I4', r.subdomain, r.run_id, s.current_stage, 'an older run of the site has not ended'
from pipeline_runs r
join sites s on s.subdomain = r.subdomain
where r.ended_at is null and s.run_id is distinct from r.run_id
union all
select 'I4', s.subdomain, s.run_id, s.current_stage, 'the run has ended, and the site is not completed with its outcome'
from sites s
join pipeline_runs r on r.run_id = s.run_id
where r.ended_at is not null and (s.current_stage is distinct from 'completed' or s.outcome is distinct from r.outcome)
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
