-- needs: 0017
-- Whatever the transition says: a site that is still in a phase has not been advanced out of it.
create view missing_coordinators as
select s.subdomain, s.run_id, s.current_stage as stage, clerk_phase(s.current_stage) as phase, t.claimed_at, t.deferred_count
from sites s
join pipeline_runs r on r.run_id = s.run_id and r.ended_at is null
left join pipeline_transitions t on t.run_id = s.run_id and t.phase = clerk_phase(s.current_stage)
where clerk_phase(s.current_stage) is not null
  and case clerk_phase(s.current_stage)
          when 1 then s.fetch_completed + s.fetch_failed >= s.fetch_total
          when 2 then s.ocr_completed + s.ocr_failed >= s.ocr_total
          when 3 then s.compilation_completed + s.compilation_failed >= s.compilation_total
                      and s.extraction_completed + s.extraction_failed >= s.extraction_total
          else s.deploy_completed + s.deploy_failed >= s.deploy_total end
  and not exists (
      select from procrastinate_jobs j
      where j.id = t.coordinator_job_id and j.status in ('todo', 'doing')
  )
  and not exists (
      select from procrastinate_jobs j
      where j.queueing_lock = format('clerk.coordinate:%s:%s', s.run_id, clerk_phase(s.current_stage)) and j.status = 'todo'
  );

comment on view missing_coordinators is 'Phases that are complete and not advanced, with no coordinator waiting or running.';
