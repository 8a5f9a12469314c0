-- needs: 0018
create view missing_coordinators as
select s.subdomain, s.run_id, s.current_stage as stage, clerk_phase(s.current_stage) as phase, t.claimed_at, t.deferred_count
from sites s
join pipeline_runs r on r.run_id = s.run_id and r.ended_at is null
left join pipeline_transitions t on t.run_id = s.run_id and t.phase = clerk_phase(s.current_stage)
-- By the limit, Postgres looks up the coordinator of each phase, and does not read all jobs.
left join lateral (
    select l.job_id
    from live_coordinators l
    where l.queueing_lock = format('clerk.coordinate:%s:%s', s.run_id, clerk_phase(s.current_stage))
    limit 1
) c on true
where clerk_units_left(s, clerk_phase(s.current_stage)) = 0 and c.job_id is null;

comment on view missing_coordinators is 'Phases that are complete and not advanced, without a waiting or running coordinator.';
