-- needs: 0017
create view run_history as
select r.subdomain, r.run_id, r.reason, r.started_at, r.ended_at,
       coalesce(r.ended_at, clerk_now()) - r.started_at as took, r.outcome, r.outcome_reason,
       r.fetch_total, r.fetch_completed, r.fetch_failed,
       r.ocr_total, r.ocr_completed, r.ocr_failed,
       r.compilation_total, r.compilation_completed, r.compilation_failed,
       r.extraction_total, r.extraction_completed, r.extraction_failed,
       r.deploy_total, r.deploy_completed, r.deploy_failed,
       r.skipped, r.skipped_examples
from pipeline_runs r;

comment on view run_history is 'A row per run: when, why, how long, how it ended. Ask for one site at a time.';
comment on column run_history.took is 'So far, while it is going.';
comment on column run_history.ocr_total is
    'The counters at the end of the run; NULL while it is going, when pipeline_overview has them. Likewise the others.';
comment on column run_history.skipped is
    'Entries of the source that its fetch passed over, 0 too if it fetched nothing; skipped_examples: the first 20 reasons.';
