-- Renames tables, columns, indexes and constraints to the names in docs/glossary.md. No row is changed.
-- Functions, triggers and views need this migration: the migrator drops the old ones and creates the new ones.

alter table storage_looks rename to storage_scans;
alter table storage_scans rename column looked_at to clean_at;
alter table storage_scans rename column whole_at to full_scan_at;
alter table storage_scans rename column tried_at to attempted_at;
alter table storage_scans rename constraint storage_looks_pkey to storage_scans_pkey;
alter table storage_scans rename constraint storage_looks_subdomain_fkey to storage_scans_subdomain_fkey;
comment on table storage_scans is 'When reconciliation last compared a site''s files with its rows. No row: never.';
comment on column storage_scans.clean_at is
    'Start of the last scan without findings; files changed since then are checked again. NULL: there was none.';
comment on column storage_scans.full_scan_at is 'Start of the last scan that compared the hash of every file.';
comment on column storage_scans.attempted_at is 'Start of the last scan, whatever its result. The site scanned longest ago is next.';

alter table reconcile_passes rename to reconcile_runs;
alter table reconcile_runs rename constraint reconcile_passes_pkey to reconcile_runs_pkey;
alter index idx_reconcile_passes_started_at rename to idx_reconcile_runs_started_at;
comment on table reconcile_runs is 'One row per reconciliation. Dry runs, and runs that found another in progress, have none.';
comment on column reconcile_runs.ended_at is 'NULL: in progress, or interrupted.';
comment on column reconcile_runs.subdomain is 'NULL: all sites.';
comment on column reconcile_runs.found is 'Repairs planned. Those whose cause had disappeared before they were applied are counted here only.';
comment on column reconcile_runs.given_up is 'Runs that were ended as failed because the same repair had made no progress three times.';

alter index idx_pipeline_runs_going rename to idx_pipeline_runs_open;

alter table content_items rename column pdf_wanted_at to pdf_missing_since;
alter table content_items rename column vanished_at to removed_at_source;
alter table content_items rename column series to lineage_id;
comment on column content_items.pdf_missing_since is
    'Since when the stored PDF is known to be missing or damaged. The next fetch downloads it unconditionally; until then it is not processed.';
comment on column content_items.removed_at_source is 'Since when the source no longer lists the document. It stays in the archive.';
comment on column content_items.lineage_id is 'The first revision of this document; NULL for a first revision.';

alter table sites rename column cadence to run_interval;
comment on column sites.run_interval is 'A site is due for its next run this long after its last progress.';
comment on column sites.dirty is 'A late unit succeeded, so the archive is out of date: the site needs a run from phase 3.';
comment on column sites.paused_at is 'Since when the site''s jobs are on hold; NULL when they are not.';

comment on table paused_queues is 'Queues whose jobs are on hold, and who paused them.';
comment on column content_item_pipeline_state.pipeline is 'The stage: fetch, ocr, compilation, extraction or deploy.';
comment on column content_item_pipeline_state.reopened_at is
    'Set when a failed unit was retried after its phase (a late unit). If it succeeds, counters are corrected and the site is dirty.';
comment on column job_claims.settled_by is 'The holder, or the repair or operator action that took the job away.';
comment on column pipeline_runs.skipped is 'Entries of the source that this run''s fetch skipped because they are not documents.';
comment on column pipeline_runs.skipped_examples is 'Which and why: the first 20.';
comment on column pipeline_runs.reason is 'Why the run was started, for a person: "scheduled", "late documents processed", …';
comment on column pipeline_transitions.error_code is 'Error code of the coordinator''s last failed attempt.';
comment on table operator_actions is 'Every operator action that changed something, written in the transaction of the change.';
comment on column reconcile_log.kind is 'What was found, as a stable identifier. The same site, run, stage and kind is the same repair, repeated.';
comment on column reconcile_log.error is 'Why the repair failed; NULL if it was applied.';
comment on table reconcile_log is 'Every repair: what was found, what was done and why, with the rows before and after.';

-- What the legacy clerk's tables held, as found.
alter table adopted_schema rename to legacy_schema;
alter table legacy_schema rename constraint adopted_schema_pkey to legacy_schema_pkey;
alter table legacy_schema rename constraint adopted_schema_kind_check to legacy_schema_kind_check;
alter table adopted_values rename to legacy_values;
alter table legacy_values rename constraint adopted_values_pkey to legacy_values_pkey;
alter table adopted_sites rename to legacy_sites;
alter table legacy_sites rename constraint adopted_sites_pkey to legacy_sites_pkey;
alter table legacy_sites rename constraint adopted_sites_subdomain_fkey to legacy_sites_subdomain_fkey;
-- These exist after `clerk legacy cleanup --apply` only.
alter table if exists adopted_older_columns rename to legacy_columns;
alter table if exists adopted_older_parts rename to legacy_column_parts;
alter table if exists adopted_older_values rename to legacy_column_values;
alter table if exists legacy_column_values rename column set_aside_at to saved_at;
alter table if exists legacy_column_parts rename column place to position;
alter table if exists adopted_site_progress rename to legacy_site_progress;
alter table if exists adopted_job_tracking rename to legacy_job_tracking;
comment on table legacy_schema is
    'The legacy clerk''s sites table as the first migration found it; restored by going down to 0. Empty if there was none.';
comment on table legacy_values is
    'Values of the legacy clerk that the checks on sites refuse (no counter, a negative one, an unknown stage), as found.';
comment on table legacy_sites is
    'A legacy site as it was when its first run here began; restored by going down to 0, unless it finished here.';
