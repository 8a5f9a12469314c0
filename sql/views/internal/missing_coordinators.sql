-- needs: 0018
create view missing_coordinators as
select s.subdomain, s.run_id, s.current_stage as stage, clerk_phase(s.current_stage) as phase, t.claimed_at, t.deferred_count
from sites s
join pipeline_runs r on r.run_id = s.run_id and r.ended_at is null
left join pipeline_transitions t on t.run_id = s.run_id and t.phase = clerk_phase(s.current_stage)
where clerk_units_left(s, clerk_phase(s.current_stage)) = 0
  and not exists (
      select from procrastinate_jobs j
      where j.id = t.coordinator_job_id and j.status in ('todo', 'doing')
  )
  and not exists (
      select from procrastinate_jobs j
      where j.queueing_lock = format('clerk.coordinate:%s:%s', s.run_id, clerk_phase(s.current_stage)) and j.status = 'todo'
  );

comment on view missing_coordinators is 'Phases that are complete and not advanced, without a waiting or running coordinator.';
