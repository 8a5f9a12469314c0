-- needs: 0017
-- Where a run is, is written three times: as current_stage, in its transitions, and in the ledger. The ledger is asked
-- only for sites whose counters and transitions already say something else than current_stage does.
create view phase_mismatches as
select s.subdomain, s.run_id, s.current_stage, truth.phase
from pipeline_runs r
join sites s on s.subdomain = r.subdomain and s.run_id = r.run_id
cross join lateral (
    select greatest((select max(t.phase) from pipeline_transitions t where t.run_id = r.run_id),
                    case when s.deploy_total > 0 then 4 when s.compilation_total + s.extraction_total > 0 then 3
                         when s.ocr_total > 0 then 2 when s.fetch_total > 0 then 1 end) as phase
) hint
cross join lateral (
    select coalesce(
        greatest((select max(t.phase) from pipeline_transitions t where t.run_id = r.run_id),
                 (select max(clerk_phase(l.pipeline))
                  from content_items i
                  join content_item_pipeline_state l on l.content_item_id = i.id and l.run_id = r.run_id
                  where i.subdomain = s.subdomain)),
        clerk_phase(s.current_stage), 1) as phase
) truth
where r.ended_at is null and hint.phase is distinct from clerk_phase(s.current_stage)
  and truth.phase is distinct from clerk_phase(s.current_stage)
  -- A site that is completed, with an outcome and nothing open: its run lacks the end, see run_end_mismatches.
  and not (s.current_stage is not distinct from 'completed' and s.outcome is not null
           and not exists (select from content_items i
                           join content_item_pipeline_state l on l.content_item_id = i.id and l.run_id = r.run_id
                           where i.subdomain = s.subdomain
                             and l.status in ('pending', 'in_progress', 'failed_retryable')));

comment on view phase_mismatches is 'Sites whose current_stage is not the phase that their run is in, and which phase that is.';
