-- needs: 0001
create view pipeline_overview as
select s.subdomain, s.name, s.current_stage, s.outcome, s.run_id, s.started_at, s.updated_at,
       s.fetch_total, s.fetch_completed, s.fetch_failed,
       s.ocr_total, s.ocr_completed, s.ocr_failed,
       s.compilation_total, s.compilation_completed, s.compilation_failed,
       s.extraction_total, s.extraction_completed, s.extraction_failed,
       s.deploy_total, s.deploy_completed, s.deploy_failed,
       s.last_error_stage, s.last_error_message, s.last_error_at
from sites s;

comment on view pipeline_overview is 'A row per site: where its run stands, its counters, and its last error.';
