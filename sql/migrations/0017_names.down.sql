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
