-- Restores the values that legacy sites had before their first run in clerk. Not a migration: used only when migrating
-- down to 0; at every other version the runs stay. A site with a finished run keeps its current values, because they
-- describe its files and its archive.

delete from legacy_sites a
where exists (select from pipeline_runs r
              where r.subdomain = a.subdomain and r.outcome in ('succeeded', 'partial', 'unchanged', 'no_documents'));

-- No worker will continue the active runs. The trigger clerk_sync_legacy_columns writes their legacy status.
update sites s
set current_stage = 'completed', outcome = 'cancelled', coordinator_enqueued = false
where exists (select from pipeline_runs r where r.run_id = s.run_id and r.ended_at is null)
  and not exists (select from legacy_sites a where a.subdomain = s.subdomain);

update sites s
set (current_stage, started_at, updated_at, coordinator_enqueued,
     fetch_total, fetch_completed, fetch_failed, ocr_total, ocr_completed, ocr_failed,
     compilation_total, compilation_completed, compilation_failed,
     extraction_total, extraction_completed, extraction_failed, deploy_total, deploy_completed, deploy_failed,
     last_error_stage, last_error_message, last_error_at)
    = (select f.current_stage, f.started_at, f.updated_at, f.coordinator_enqueued,
              f.fetch_total, f.fetch_completed, f.fetch_failed, f.ocr_total, f.ocr_completed, f.ocr_failed,
              f.compilation_total, f.compilation_completed, f.compilation_failed,
              f.extraction_total, f.extraction_completed, f.extraction_failed,
              f.deploy_total, f.deploy_completed, f.deploy_failed,
              f.last_error_stage, f.last_error_message, f.last_error_at
       from jsonb_populate_record(s, a.as_found) f)
from legacy_sites a
where a.subdomain = s.subdomain;

-- After current_stage, whose trigger also writes these columns.
update sites s
set (status, extraction_status, last_updated, last_deployed, last_extracted)
    = (select f.status, f.extraction_status, f.last_updated, f.last_deployed, f.last_extracted
       from jsonb_populate_record(s, a.as_found) f)
from legacy_sites a
where a.subdomain = s.subdomain;
