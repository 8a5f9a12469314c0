-- needs: 0018
-- A run's record says whether it has ended; ledger and transitions say which phase it has reached. clerk_run_phase
-- reads the ledger, so it is called only for sites whose counters already contradict current_stage.
create view run_mismatches as
select r.subdomain, l.run_id, 'I1' as invariant, l.pipeline as stage,
       format('content item %s is %s although its run has ended', l.content_item_id, l.status) as problem
from content_item_pipeline_state l
join pipeline_runs r on r.run_id = l.run_id
where l.status in ('pending', 'in_progress', 'failed_retryable') and r.ended_at is not null
union all
select r.subdomain, r.run_id, 'I4', null, format('run %s is open but is not the current run of its site', r.run_id)
from pipeline_runs r
join sites s on s.subdomain = r.subdomain
where r.ended_at is null and s.run_id is distinct from r.run_id
union all
select s.subdomain, s.run_id, 'I4', s.current_stage,
       format('run %s ended as %s, but the site has stage %s and outcome %s', r.run_id, r.outcome,
              coalesce(s.current_stage, 'none'), coalesce(s.outcome, 'none'))
from sites s
join pipeline_runs r on r.run_id = s.run_id
where r.ended_at is not null and (s.current_stage is distinct from 'completed' or s.outcome is distinct from r.outcome)
union all
select s.subdomain, s.run_id, 'I4', s.current_stage,
       format('run %s is in phase %s, but the site has stage %s and outcome %s', r.run_id, reached.phase,
              coalesce(s.current_stage, 'none'), coalesce(s.outcome, 'none'))
from pipeline_runs r
join sites s on s.subdomain = r.subdomain and s.run_id = r.run_id
cross join lateral (
    select case when s.deploy_total > 0 then 4 when s.compilation_total + s.extraction_total > 0 then 3
                when s.ocr_total > 0 then 2 when s.fetch_total > 0 then 1 end as phase
) counted
cross join lateral (
    select coalesce(case when counted.phase is distinct from clerk_phase(s.current_stage)
                         then clerk_run_phase(s.subdomain, s.run_id) end, clerk_phase(s.current_stage), 1) as phase
) reached
where r.ended_at is null and (s.outcome is not null or reached.phase is distinct from clerk_phase(s.current_stage));

comment on view run_mismatches is
    'Runs on whose state the rows disagree: open units of an ended run (I1); a site whose stage or outcome is not that of its run, or an open run that is not the current run of its site (I4).';
