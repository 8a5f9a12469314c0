alter table if exists legacy_job_tracking rename to adopted_job_tracking;
alter table if exists legacy_site_progress rename to adopted_site_progress;
alter table if exists legacy_column_parts rename column position to place;
alter table if exists legacy_column_values rename column saved_at to set_aside_at;
alter table if exists legacy_column_values rename to adopted_older_values;
alter table if exists legacy_column_parts rename to adopted_older_parts;
alter table if exists legacy_columns rename to adopted_older_columns;
alter table legacy_sites rename constraint legacy_sites_subdomain_fkey to adopted_sites_subdomain_fkey;
alter table legacy_sites rename constraint legacy_sites_pkey to adopted_sites_pkey;
alter table legacy_sites rename to adopted_sites;
alter table legacy_values rename constraint legacy_values_pkey to adopted_values_pkey;
alter table legacy_values rename to adopted_values;
alter table legacy_schema rename constraint legacy_schema_kind_check to adopted_schema_kind_check;
alter table legacy_schema rename constraint legacy_schema_pkey to adopted_schema_pkey;
alter table legacy_schema rename to adopted_schema;

alter table sites rename column run_interval to cadence;

alter table content_items rename column lineage_id to series;
alter table content_items rename column removed_at_source to vanished_at;
alter table content_items rename column pdf_missing_since to pdf_wanted_at;

alter index idx_pipeline_runs_open rename to idx_pipeline_runs_going;

alter index idx_reconcile_runs_started_at rename to idx_reconcile_passes_started_at;
alter table reconcile_runs rename constraint reconcile_runs_pkey to reconcile_passes_pkey;
alter table reconcile_runs rename to reconcile_passes;

alter table storage_scans rename constraint storage_scans_subdomain_fkey to storage_looks_subdomain_fkey;
alter table storage_scans rename constraint storage_scans_pkey to storage_looks_pkey;
alter table storage_scans rename column attempted_at to tried_at;
alter table storage_scans rename column full_scan_at to whole_at;
alter table storage_scans rename column clean_at to looked_at;
alter table storage_scans rename to storage_looks;

-- Comments as the earlier migrations wrote them.
comment on table storage_looks is 'When reconciliation last compared a site''s files with its rows. No row: never.';
comment on column storage_looks.looked_at is
    'When the last comparison began in which nothing was found. Files that changed since are in doubt. NULL: there was none.';
comment on column storage_looks.whole_at is 'When it last did so with the hash of every file.';
comment on column storage_looks.tried_at is
    'When it last began to, whatever came of it: the longest untried is the next.';
comment on table reconcile_passes is 'Every reconciliation but dry runs, and those that found another at work.';
comment on column reconcile_passes.ended_at is 'NULL: it is going on, or was cut short.';
comment on column reconcile_passes.subdomain is 'NULL: all sites were looked at.';
comment on column reconcile_passes.found is
    'What was planned; what had healed by itself meanwhile is counted nowhere else.';
comment on column reconcile_passes.given_up is
    'Runs that were ended because the same repair had led nowhere three times.';
comment on column content_items.pdf_wanted_at is
    'Since when its PDF is known to be gone or damaged: the next fetch downloads it whatever the source says, and until then it is not read.';
comment on column content_items.vanished_at is
    'Since when the source no longer lists it. It stays in the archive: that is what an archive is for.';
comment on column content_items.series is
    'Id of the first content item of this document''s history (NULL: itself); revisions and moves to another day share it.';
comment on column sites.cadence is 'A site is due for its next run this long after its last progress.';
comment on column sites.dirty is 'A document was healed after its phase: the archive wants a run from phase 3.';
comment on column sites.paused_at is 'Since when the site''s jobs are held back; NULL when they are not.';
comment on table paused_queues is 'Queues whose jobs are held back, and who said so.';
comment on column content_item_pipeline_state.pipeline is 'The stage: fetch, ocr, compilation, extraction or deploy.';
comment on column content_item_pipeline_state.reopened_at is
    'An operator retried the failed unit after its phase: if it succeeds the books are put right and the site is dirty.';
comment on column job_claims.settled_by is 'Its holder, or the repair or operator''s move that took the job away.';
comment on column pipeline_runs.skipped is
    'Entries of the source that this run''s fetch passed over, since no document can be made of them.';
comment on column pipeline_runs.skipped_examples is 'Which and why: the first 20 of them.';
comment on column pipeline_runs.reason is
    'Why the run was started, for a person: "scheduled", "late documents healed", …';
comment on column pipeline_transitions.error_code is
    'The class of error of the coordinator''s last attempt that failed, advanced or not since; error_message says more.';
comment on table operator_actions is
    'Every operator''s move that changed something, written in its own transaction by whatever made it.';
comment on column reconcile_log.kind is
    'A stable word for what was found. The same site, run, stage and kind is the same repair, come back.';
comment on column reconcile_log.error is 'Why the repair failed; NULL if it was made.';
comment on table reconcile_log is
    'Every repair: what was found, what was done and why, with the rows before and after.';
comment on table adopted_schema is
    'The older system''s sites table as the first migration found it: what going down gives back. Empty if there was none.';
comment on table adopted_values is
    'Values of the older system that the checks on sites refuse (no counter, a negative one, an unknown stage), as found.';
comment on table adopted_sites is
    'A site of the older system as it was when its first run here began: what going down to 0 gives back, unless it was finished here.';
