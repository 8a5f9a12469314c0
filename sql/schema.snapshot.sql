-- The whole schema after every migration, a fact per line. Made by `clerk db snapshot`; never edited by hand.

-- section: types
create type procrastinate_job_event_type as enum ('deferred', 'started', 'deferred_for_retry', 'failed', 'succeeded', 'cancelled', 'abort_requested', 'aborted', 'scheduled', 'retried');
create type procrastinate_job_status as enum ('todo', 'doing', 'succeeded', 'failed', 'cancelled', 'aborting', 'aborted');
create type procrastinate_job_to_defer_v1 as (queue_name character varying, task_name character varying, priority integer, lock text, queueing_lock text, args jsonb, scheduled_at timestamp with time zone);

-- section: tables
create table clerk_migrations ();
create table clerk_procrastinate ();
create table clerk_schema_objects ();
create table content_item_pipeline_state ();
create table content_items ();
create table fetch_hosts ();
create table fetch_slots ();
create table ignored_results ();
create table job_claims ();
create table legacy_schema ();
create table legacy_sites ();
create table legacy_values ();
create table operator_actions ();
create table paused_queues ();
create table pipeline_runs ();
create table pipeline_transitions ();
create table procrastinate_events ();
create table procrastinate_jobs ();
create table procrastinate_periodic_defers ();
create table procrastinate_workers ();
create table publication_steps ();
create table publications ();
create table reconcile_log ();
create table reconcile_runs ();
create table sites ();
create table stage_policy ();
create table storage_scans ();
create table worker_processes ();

-- section: columns
alter table clerk_migrations add column applied_at timestamp with time zone not null default now();
alter table clerk_migrations add column applied_by text not null default CURRENT_USER;
alter table clerk_migrations add column checksum text not null;
alter table clerk_migrations add column milliseconds integer not null;
alter table clerk_migrations add column name text not null;
alter table clerk_migrations add column version integer not null;
alter table clerk_procrastinate add column applied_at timestamp with time zone not null default now();
alter table clerk_procrastinate add column complete boolean not null;
alter table clerk_procrastinate add column file text not null;
alter table clerk_procrastinate add column functions jsonb not null;
alter table clerk_procrastinate add column version text not null;
alter table clerk_schema_objects add column applied_at timestamp with time zone not null default now();
alter table clerk_schema_objects add column checksum text not null;
alter table clerk_schema_objects add column kind text not null;
alter table clerk_schema_objects add column live_checksum text not null;
alter table clerk_schema_objects add column name text not null;
alter table clerk_schema_objects add column needs integer not null;
alter table content_item_pipeline_state add column attempt_count integer not null default 0;
alter table content_item_pipeline_state add column content_item_id bigint not null;
alter table content_item_pipeline_state add column created_at timestamp with time zone not null default now();
alter table content_item_pipeline_state add column error_code text;
alter table content_item_pipeline_state add column error_message text;
alter table content_item_pipeline_state add column id bigint not null generated always as identity;
alter table content_item_pipeline_state add column job_id bigint;
alter table content_item_pipeline_state add column last_attempt_at timestamp with time zone;
alter table content_item_pipeline_state add column pipeline text not null;
alter table content_item_pipeline_state add column processed_at timestamp with time zone;
alter table content_item_pipeline_state add column reopened_at timestamp with time zone;
alter table content_item_pipeline_state add column run_id bigint;
alter table content_item_pipeline_state add column status text not null default 'pending'::text;
alter table content_item_pipeline_state add column updated_at timestamp with time zone not null default now();
alter table content_items add column checked_at timestamp with time zone;
alter table content_items add column created_at timestamp with time zone not null default now();
alter table content_items add column date date;
alter table content_items add column etag text;
alter table content_items add column fetch_error_code text;
alter table content_items add column fetch_error_message text;
alter table content_items add column fetch_failed_at timestamp with time zone;
alter table content_items add column fetched_at timestamp with time zone;
alter table content_items add column id bigint not null generated always as identity;
alter table content_items add column kind text not null;
alter table content_items add column last_modified text;
alter table content_items add column lineage_id bigint;
alter table content_items add column meeting text;
alter table content_items add column occurrence smallint not null default 1;
alter table content_items add column page_count integer;
alter table content_items add column pdf_missing_since timestamp with time zone;
alter table content_items add column removed_at_source timestamp with time zone;
alter table content_items add column revision smallint not null default 1;
alter table content_items add column sha256 text;
alter table content_items add column size_bytes bigint;
alter table content_items add column source_key text;
alter table content_items add column source_url text;
alter table content_items add column source_version text;
alter table content_items add column storage_key text;
alter table content_items add column subdomain character varying not null;
alter table content_items add column superseded_at timestamp with time zone;
alter table content_items add column updated_at timestamp with time zone not null default now();
alter table fetch_hosts add column held_until timestamp with time zone;
alter table fetch_hosts add column held_why text;
alter table fetch_hosts add column host text not null;
alter table fetch_hosts add column next_at timestamp with time zone not null;
alter table fetch_slots add column holder text not null default current_setting('application_name'::text);
alter table fetch_slots add column host text not null;
alter table fetch_slots add column id bigint not null generated always as identity;
alter table fetch_slots add column lease_until timestamp with time zone not null;
alter table ignored_results add column at timestamp with time zone not null default now();
alter table ignored_results add column attempt integer;
alter table ignored_results add column content_item_id bigint;
alter table ignored_results add column holder text not null;
alter table ignored_results add column id bigint not null generated always as identity;
alter table ignored_results add column job_id bigint not null;
alter table ignored_results add column run_id bigint;
alter table ignored_results add column stage text;
alter table ignored_results add column status text not null;
alter table ignored_results add column subdomain text;
alter table ignored_results add column why text not null;
alter table job_claims add column attempt integer not null;
alter table job_claims add column claimed_at timestamp with time zone not null default now();
alter table job_claims add column holder text not null;
alter table job_claims add column job_id bigint not null;
alter table job_claims add column lease_until timestamp with time zone not null;
alter table job_claims add column progress integer not null default 0;
alter table job_claims add column progress_at timestamp with time zone;
alter table job_claims add column progress_total integer;
alter table job_claims add column settled_as text;
alter table job_claims add column settled_at timestamp with time zone;
alter table job_claims add column settled_by text;
alter table legacy_schema add column as_found jsonb;
alter table legacy_schema add column kind text not null;
alter table legacy_schema add column name text not null;
alter table legacy_sites add column as_found jsonb not null;
alter table legacy_sites add column subdomain character varying not null;
alter table legacy_values add column as_found jsonb not null;
alter table legacy_values add column subdomain character varying not null;
alter table operator_actions add column action text not null;
alter table operator_actions add column actor text not null default COALESCE(NULLIF(current_setting('clerk.operator'::text, true), ''::text), (SESSION_USER)::text);
alter table operator_actions add column at timestamp with time zone not null default now();
alter table operator_actions add column detail jsonb not null default '{}'::jsonb;
alter table operator_actions add column id bigint not null generated always as identity;
alter table operator_actions add column run_id bigint;
alter table operator_actions add column subdomain character varying;
alter table operator_actions add column via text not null default COALESCE(NULLIF(current_setting('clerk.via'::text, true), ''::text), 'sql'::text);
alter table paused_queues add column paused_at timestamp with time zone not null default now();
alter table paused_queues add column paused_by text not null;
alter table paused_queues add column queue_name text not null;
alter table pipeline_runs add column counters jsonb;
alter table pipeline_runs add column ended_at timestamp with time zone;
alter table pipeline_runs add column outcome text;
alter table pipeline_runs add column outcome_reason text;
alter table pipeline_runs add column reason text not null;
alter table pipeline_runs add column run_id bigint not null generated always as identity;
alter table pipeline_runs add column skipped integer not null default 0;
alter table pipeline_runs add column skipped_examples text[];
alter table pipeline_runs add column started_at timestamp with time zone not null default now();
alter table pipeline_runs add column subdomain character varying not null;
alter table pipeline_transitions add column advanced_at timestamp with time zone;
alter table pipeline_transitions add column claimed_at timestamp with time zone not null default now();
alter table pipeline_transitions add column coordinator_job_id bigint;
alter table pipeline_transitions add column deferred_count integer not null default 1;
alter table pipeline_transitions add column error_at timestamp with time zone;
alter table pipeline_transitions add column error_code text;
alter table pipeline_transitions add column error_message text;
alter table pipeline_transitions add column last_deferred_at timestamp with time zone not null default now();
alter table pipeline_transitions add column phase smallint not null;
alter table pipeline_transitions add column run_id bigint not null;
alter table procrastinate_events add column at timestamp with time zone default now();
alter table procrastinate_events add column id bigint not null default nextval('procrastinate_events_id_seq'::regclass);
alter table procrastinate_events add column job_id bigint not null;
alter table procrastinate_events add column type procrastinate_job_event_type;
alter table procrastinate_jobs add column abort_requested boolean not null default false;
alter table procrastinate_jobs add column args jsonb not null default '{}'::jsonb;
alter table procrastinate_jobs add column attempts integer not null default 0;
alter table procrastinate_jobs add column id bigint not null default nextval('procrastinate_jobs_id_seq'::regclass);
alter table procrastinate_jobs add column lock text;
alter table procrastinate_jobs add column priority integer not null default 0;
alter table procrastinate_jobs add column queue_name character varying(128) not null;
alter table procrastinate_jobs add column queueing_lock text;
alter table procrastinate_jobs add column scheduled_at timestamp with time zone;
alter table procrastinate_jobs add column status procrastinate_job_status not null default 'todo'::procrastinate_job_status;
alter table procrastinate_jobs add column task_name character varying(128) not null;
alter table procrastinate_jobs add column worker_id bigint;
alter table procrastinate_periodic_defers add column defer_timestamp bigint;
alter table procrastinate_periodic_defers add column id bigint not null default nextval('procrastinate_periodic_defers_id_seq'::regclass);
alter table procrastinate_periodic_defers add column job_id bigint;
alter table procrastinate_periodic_defers add column periodic_id character varying(128) not null default ''::character varying;
alter table procrastinate_periodic_defers add column task_name character varying(128) not null;
alter table procrastinate_workers add column id bigint not null generated always as identity;
alter table procrastinate_workers add column last_heartbeat timestamp with time zone not null default now();
alter table publication_steps add column done_at timestamp with time zone not null default now();
alter table publication_steps add column name text not null;
alter table publication_steps add column publication_id bigint not null;
alter table publication_steps add column result text;
alter table publication_steps add column step text not null;
alter table publications add column announced_at timestamp with time zone;
alter table publications add column begun_at timestamp with time zone not null default now();
alter table publications add column content_hash text not null;
alter table publications add column deployed_at timestamp with time zone;
alter table publications add column id bigint not null generated always as identity;
alter table publications add column lost_copy boolean not null default false;
alter table publications add column pages integer not null;
alter table publications add column run_id bigint not null;
alter table publications add column subdomain character varying not null;
alter table publications add column withdrawn_at timestamp with time zone;
alter table publications add column withdrawn_by text;
alter table reconcile_log add column actor text not null default CURRENT_USER;
alter table reconcile_log add column after jsonb;
alter table reconcile_log add column at timestamp with time zone not null default now();
alter table reconcile_log add column before jsonb;
alter table reconcile_log add column done text not null;
alter table reconcile_log add column error text;
alter table reconcile_log add column found text not null;
alter table reconcile_log add column id bigint not null generated always as identity;
alter table reconcile_log add column kind text not null default 'other'::text;
alter table reconcile_log add column reconciliation uuid not null;
alter table reconcile_log add column run_id bigint;
alter table reconcile_log add column stage text;
alter table reconcile_log add column subdomain character varying;
alter table reconcile_log add column why text not null;
alter table reconcile_runs add column abandoned integer not null default 0;
alter table reconcile_runs add column actor text not null default COALESCE(NULLIF(current_setting('clerk.operator'::text, true), ''::text), (SESSION_USER)::text);
alter table reconcile_runs add column ended_at timestamp with time zone;
alter table reconcile_runs add column failed integer not null default 0;
alter table reconcile_runs add column found integer not null default 0;
alter table reconcile_runs add column reconciliation uuid not null;
alter table reconcile_runs add column repaired integer not null default 0;
alter table reconcile_runs add column started_at timestamp with time zone not null default now();
alter table reconcile_runs add column subdomain character varying;
alter table reconcile_runs add column via text not null default COALESCE(NULLIF(current_setting('clerk.via'::text, true), ''::text), 'sql'::text);
alter table sites add column compilation_completed integer not null default 0;
alter table sites add column compilation_failed integer not null default 0;
alter table sites add column compilation_total integer not null default 0;
alter table sites add column coordinator_enqueued boolean not null default false;
alter table sites add column country character varying;
alter table sites add column current_stage character varying;
alter table sites add column deploy_completed integer not null default 0;
alter table sites add column deploy_failed integer not null default 0;
alter table sites add column deploy_total integer not null default 0;
alter table sites add column dirty boolean not null default false;
alter table sites add column extra character varying;
alter table sites add column extraction_completed integer not null default 0;
alter table sites add column extraction_failed integer not null default 0;
alter table sites add column extraction_status character varying default 'pending'::character varying;
alter table sites add column extraction_total integer not null default 0;
alter table sites add column fetch_completed integer not null default 0;
alter table sites add column fetch_failed integer not null default 0;
alter table sites add column fetch_total integer not null default 0;
alter table sites add column kind character varying;
alter table sites add column last_deployed character varying;
alter table sites add column last_error_at timestamp with time zone;
alter table sites add column last_error_message text;
alter table sites add column last_error_stage character varying;
alter table sites add column last_extracted character varying;
alter table sites add column last_updated character varying;
alter table sites add column lat character varying;
alter table sites add column lng character varying;
alter table sites add column name character varying;
alter table sites add column ocr_completed integer not null default 0;
alter table sites add column ocr_failed integer not null default 0;
alter table sites add column ocr_total integer not null default 0;
alter table sites add column outcome character varying;
alter table sites add column pages integer;
alter table sites add column paused_at timestamp with time zone;
alter table sites add column paused_by text;
alter table sites add column run_id bigint;
alter table sites add column run_interval interval not null default '23:00:00'::interval;
alter table sites add column scraper character varying;
alter table sites add column start_year integer;
alter table sites add column started_at timestamp with time zone;
alter table sites add column state character varying;
alter table sites add column status character varying;
alter table sites add column subdomain character varying not null;
alter table sites add column updated_at timestamp with time zone;
alter table stage_policy add column lease interval not null;
alter table stage_policy add column max_attempts integer not null;
alter table stage_policy add column phase smallint not null;
alter table stage_policy add column stage text not null;
alter table stage_policy add column task_name text not null;
alter table stage_policy add column time_limit interval not null;
alter table storage_scans add column attempted_at timestamp with time zone;
alter table storage_scans add column clean_at timestamp with time zone;
alter table storage_scans add column full_scan_at timestamp with time zone;
alter table storage_scans add column subdomain character varying not null;
alter table worker_processes add column holder text not null;
alter table worker_processes add column queues text[];
alter table worker_processes add column registered_at timestamp with time zone not null default now();
alter table worker_processes add column worker_id bigint not null;

-- section: options
alter table content_item_pipeline_state set (autovacuum_analyze_scale_factor=0.02);
alter table content_item_pipeline_state set (autovacuum_vacuum_scale_factor=0.02);
alter table content_item_pipeline_state set (fillfactor=80);
alter table fetch_hosts set (autovacuum_vacuum_scale_factor=0.02);
alter table fetch_hosts set (autovacuum_vacuum_threshold=200);
alter table fetch_hosts set (fillfactor=50);
alter table job_claims set (autovacuum_vacuum_scale_factor=0.02);
alter table job_claims set (autovacuum_vacuum_threshold=200);
alter table job_claims set (fillfactor=50);
alter table sites set (autovacuum_vacuum_scale_factor=0.02);
alter table sites set (autovacuum_vacuum_threshold=200);
alter table sites set (fillfactor=50);

-- section: constraints
alter table clerk_migrations add constraint clerk_migrations_pkey PRIMARY KEY (version);
alter table clerk_procrastinate add constraint clerk_procrastinate_pkey PRIMARY KEY (file);
alter table clerk_schema_objects add constraint clerk_schema_objects_kind_check CHECK ((kind = ANY (ARRAY['function'::text, 'trigger'::text, 'view'::text])));
alter table clerk_schema_objects add constraint clerk_schema_objects_pkey PRIMARY KEY (kind, name);
alter table content_item_pipeline_state add constraint cips_attempt_count_check CHECK ((attempt_count >= 0));
alter table content_item_pipeline_state add constraint cips_pipeline_check CHECK ((pipeline = ANY (ARRAY['fetch'::text, 'ocr'::text, 'compilation'::text, 'extraction'::text, 'deploy'::text])));
alter table content_item_pipeline_state add constraint cips_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'in_progress'::text, 'failed_retryable'::text, 'processed'::text, 'failed_terminal'::text])));
alter table content_item_pipeline_state add constraint content_item_pipeline_state_content_item_id_fkey FOREIGN KEY (content_item_id) REFERENCES content_items(id) ON DELETE CASCADE;
alter table content_item_pipeline_state add constraint content_item_pipeline_state_pkey PRIMARY KEY (id);
alter table content_items add constraint content_items_document_check CHECK (((kind = 'archive'::text) OR ((meeting IS NOT NULL) AND (meeting <> ''::text) AND (date IS NOT NULL))));
alter table content_items add constraint content_items_kind_check CHECK ((kind = ANY (ARRAY['minutes'::text, 'agenda'::text, 'archive'::text])));
alter table content_items add constraint content_items_occurrence_check CHECK ((occurrence >= 1));
alter table content_items add constraint content_items_page_count_check CHECK ((page_count >= 0));
alter table content_items add constraint content_items_pkey PRIMARY KEY (id);
alter table content_items add constraint content_items_revision_check CHECK ((revision >= 1));
alter table content_items add constraint content_items_sha256_check CHECK ((sha256 ~ '^[0-9a-f]{64}$'::text));
alter table content_items add constraint content_items_size_bytes_check CHECK ((size_bytes >= 0));
alter table content_items add constraint content_items_subdomain_fkey FOREIGN KEY (subdomain) REFERENCES sites(subdomain) ON UPDATE CASCADE ON DELETE CASCADE;
alter table fetch_hosts add constraint fetch_hosts_pkey PRIMARY KEY (host);
alter table fetch_slots add constraint fetch_slots_host_fkey FOREIGN KEY (host) REFERENCES fetch_hosts(host) ON DELETE CASCADE;
alter table fetch_slots add constraint fetch_slots_pkey PRIMARY KEY (id);
alter table ignored_results add constraint ignored_results_pkey PRIMARY KEY (id);
alter table ignored_results add constraint ignored_results_why_check CHECK ((why = ANY (ARRAY['fenced'::text, 'stale'::text])));
alter table job_claims add constraint job_claims_pkey PRIMARY KEY (job_id);
alter table job_claims add constraint job_claims_progress_check CHECK ((progress >= 0));
alter table legacy_schema add constraint legacy_schema_kind_check CHECK ((kind = ANY (ARRAY['table'::text, 'column'::text, 'index'::text, 'constraint'::text])));
alter table legacy_schema add constraint legacy_schema_pkey PRIMARY KEY (kind, name);
alter table legacy_sites add constraint legacy_sites_pkey PRIMARY KEY (subdomain);
alter table legacy_sites add constraint legacy_sites_subdomain_fkey FOREIGN KEY (subdomain) REFERENCES sites(subdomain) ON UPDATE CASCADE ON DELETE CASCADE;
alter table legacy_values add constraint legacy_values_pkey PRIMARY KEY (subdomain);
alter table operator_actions add constraint operator_actions_pkey PRIMARY KEY (id);
alter table paused_queues add constraint paused_queues_pkey PRIMARY KEY (queue_name);
alter table pipeline_runs add constraint pipeline_runs_ended_check CHECK (((ended_at IS NULL) = (outcome IS NULL)));
alter table pipeline_runs add constraint pipeline_runs_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'partial'::text, 'failed'::text, 'unchanged'::text, 'no_documents'::text, 'cancelled'::text])));
alter table pipeline_runs add constraint pipeline_runs_pkey PRIMARY KEY (run_id);
alter table pipeline_runs add constraint pipeline_runs_subdomain_fkey FOREIGN KEY (subdomain) REFERENCES sites(subdomain) ON UPDATE CASCADE ON DELETE CASCADE;
alter table pipeline_transitions add constraint pipeline_transitions_deferred_count_check CHECK ((deferred_count >= 1));
alter table pipeline_transitions add constraint pipeline_transitions_phase_check CHECK (((phase >= 1) AND (phase <= 4)));
alter table pipeline_transitions add constraint pipeline_transitions_pkey PRIMARY KEY (run_id, phase);
alter table pipeline_transitions add constraint pipeline_transitions_run_id_fkey FOREIGN KEY (run_id) REFERENCES pipeline_runs(run_id) ON DELETE CASCADE;
alter table procrastinate_events add constraint procrastinate_events_job_id_fkey FOREIGN KEY (job_id) REFERENCES procrastinate_jobs(id) ON DELETE CASCADE;
alter table procrastinate_events add constraint procrastinate_events_pkey PRIMARY KEY (id);
alter table procrastinate_jobs add constraint check_not_todo_abort_requested CHECK ((NOT ((status = 'todo'::procrastinate_job_status) AND (abort_requested = true))));
alter table procrastinate_jobs add constraint procrastinate_jobs_pkey PRIMARY KEY (id);
alter table procrastinate_jobs add constraint procrastinate_jobs_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES procrastinate_workers(id) ON DELETE SET NULL;
alter table procrastinate_periodic_defers add constraint procrastinate_periodic_defers_job_id_fkey FOREIGN KEY (job_id) REFERENCES procrastinate_jobs(id);
alter table procrastinate_periodic_defers add constraint procrastinate_periodic_defers_pkey PRIMARY KEY (id);
alter table procrastinate_periodic_defers add constraint procrastinate_periodic_defers_unique UNIQUE (task_name, periodic_id, defer_timestamp);
alter table procrastinate_workers add constraint procrastinate_workers_pkey PRIMARY KEY (id);
alter table publication_steps add constraint publication_steps_pkey PRIMARY KEY (publication_id, step, name);
alter table publication_steps add constraint publication_steps_publication_id_fkey FOREIGN KEY (publication_id) REFERENCES publications(id) ON DELETE CASCADE;
alter table publication_steps add constraint publication_steps_step_check CHECK ((step = ANY (ARRAY['deploy'::text, 'post_deploy'::text])));
alter table publications add constraint publications_announced_check CHECK (((announced_at IS NULL) OR (deployed_at IS NOT NULL)));
alter table publications add constraint publications_content_hash_check CHECK ((content_hash ~ '^[0-9a-f]{64}$'::text));
alter table publications add constraint publications_pages_check CHECK ((pages >= 0));
alter table publications add constraint publications_pkey PRIMARY KEY (id);
alter table publications add constraint publications_run_id_fkey FOREIGN KEY (run_id) REFERENCES pipeline_runs(run_id) ON DELETE CASCADE;
alter table publications add constraint publications_subdomain_fkey FOREIGN KEY (subdomain) REFERENCES sites(subdomain) ON UPDATE CASCADE ON DELETE CASCADE;
alter table reconcile_log add constraint reconcile_log_pkey PRIMARY KEY (id);
alter table reconcile_runs add constraint reconcile_runs_pkey PRIMARY KEY (reconciliation);
alter table sites add constraint sites_compilation_counters_check CHECK (((compilation_total >= 0) AND (compilation_completed >= 0) AND (compilation_failed >= 0)));
alter table sites add constraint sites_current_stage_check CHECK (((current_stage)::text = ANY ((ARRAY['fetch'::character varying, 'ocr'::character varying, 'compilation'::character varying, 'extraction'::character varying, 'deploy'::character varying, 'completed'::character varying])::text[])));
alter table sites add constraint sites_deploy_counters_check CHECK (((deploy_total >= 0) AND (deploy_completed >= 0) AND (deploy_failed >= 0)));
alter table sites add constraint sites_extraction_counters_check CHECK (((extraction_total >= 0) AND (extraction_completed >= 0) AND (extraction_failed >= 0)));
alter table sites add constraint sites_fetch_counters_check CHECK (((fetch_total >= 0) AND (fetch_completed >= 0) AND (fetch_failed >= 0)));
alter table sites add constraint sites_ocr_counters_check CHECK (((ocr_total >= 0) AND (ocr_completed >= 0) AND (ocr_failed >= 0)));
alter table sites add constraint sites_outcome_check CHECK (((outcome)::text = ANY ((ARRAY['succeeded'::character varying, 'partial'::character varying, 'failed'::character varying, 'unchanged'::character varying, 'no_documents'::character varying, 'cancelled'::character varying])::text[])));
alter table sites add constraint sites_pkey PRIMARY KEY (subdomain);
alter table sites add constraint sites_run_id_fkey FOREIGN KEY (run_id) REFERENCES pipeline_runs(run_id);
alter table stage_policy add constraint stage_policy_lease_check CHECK ((lease >= '00:00:01'::interval));
alter table stage_policy add constraint stage_policy_max_attempts_check CHECK ((max_attempts >= 1));
alter table stage_policy add constraint stage_policy_phase_check CHECK (((phase >= 1) AND (phase <= 4)));
alter table stage_policy add constraint stage_policy_pkey PRIMARY KEY (stage);
alter table stage_policy add constraint stage_policy_stage_check CHECK ((stage = ANY (ARRAY['fetch'::text, 'ocr'::text, 'compilation'::text, 'extraction'::text, 'deploy'::text])));
alter table stage_policy add constraint stage_policy_time_limit_check CHECK ((time_limit >= lease));
alter table storage_scans add constraint storage_scans_pkey PRIMARY KEY (subdomain);
alter table storage_scans add constraint storage_scans_subdomain_fkey FOREIGN KEY (subdomain) REFERENCES sites(subdomain) ON UPDATE CASCADE ON DELETE CASCADE;
alter table worker_processes add constraint worker_processes_pkey PRIMARY KEY (worker_id);
alter table worker_processes add constraint worker_processes_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES procrastinate_workers(id) ON DELETE CASCADE;

-- section: indexes
CREATE INDEX idx_cips_content_item_pipeline_status ON content_item_pipeline_state USING btree (content_item_id, pipeline, status) WHERE (status = ANY (ARRAY['failed_retryable'::text, 'failed_terminal'::text]));
CREATE INDEX idx_cips_error_code ON content_item_pipeline_state USING btree (error_code) WHERE (error_code IS NOT NULL);
CREATE INDEX idx_cips_pipeline_status_created ON content_item_pipeline_state USING btree (pipeline, status, created_at) WHERE (status = ANY (ARRAY['pending'::text, 'in_progress'::text, 'failed_retryable'::text]));
CREATE INDEX idx_cips_pipeline_status_last_attempt ON content_item_pipeline_state USING btree (pipeline, status, last_attempt_at) WHERE (status = ANY (ARRAY['failed_retryable'::text, 'failed_terminal'::text]));
CREATE INDEX idx_cips_reopened ON content_item_pipeline_state USING btree (content_item_id) WHERE (reopened_at IS NOT NULL);
CREATE INDEX idx_cips_updated_at ON content_item_pipeline_state USING btree (updated_at) WHERE (status = ANY (ARRAY['failed_retryable'::text, 'failed_terminal'::text]));
CREATE INDEX idx_content_items_fetch_failed_at ON content_items USING btree (fetch_failed_at) WHERE (fetch_failed_at IS NOT NULL);
CREATE INDEX idx_content_items_source_url ON content_items USING btree (subdomain, source_url);
CREATE INDEX idx_fetch_slots_host ON fetch_slots USING btree (host);
CREATE INDEX idx_ignored_results_at ON ignored_results USING btree (at);
CREATE INDEX idx_operator_actions_at ON operator_actions USING btree (at);
CREATE INDEX idx_pipeline_runs_ended ON pipeline_runs USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX idx_pipeline_runs_open ON pipeline_runs USING btree (started_at) WHERE (ended_at IS NULL);
CREATE INDEX idx_pipeline_runs_subdomain ON pipeline_runs USING btree (subdomain, started_at DESC);
CREATE INDEX idx_pipeline_transitions_waiting ON pipeline_transitions USING btree (claimed_at) WHERE (advanced_at IS NULL);
CREATE INDEX idx_procrastinate_jobs_queue_todo ON procrastinate_jobs USING btree (queue_name, priority DESC, id) WHERE (status = 'todo'::procrastinate_job_status);
CREATE INDEX idx_procrastinate_jobs_worker_not_null ON procrastinate_jobs USING btree (worker_id) WHERE ((worker_id IS NOT NULL) AND (status = 'doing'::procrastinate_job_status));
CREATE INDEX idx_procrastinate_workers_last_heartbeat ON procrastinate_workers USING btree (last_heartbeat);
CREATE INDEX idx_publications_subdomain ON publications USING btree (subdomain, id DESC);
CREATE INDEX idx_reconcile_log_at ON reconcile_log USING btree (at);
CREATE INDEX idx_reconcile_log_repair ON reconcile_log USING btree (subdomain, run_id, kind, at);
CREATE INDEX idx_reconcile_log_subdomain ON reconcile_log USING btree (subdomain, at DESC);
CREATE INDEX idx_reconcile_runs_started_at ON reconcile_runs USING btree (started_at);
CREATE INDEX idx_sites_coordinator_enqueued ON sites USING btree (coordinator_enqueued) WHERE (coordinator_enqueued = false);
CREATE INDEX idx_sites_current_stage ON sites USING btree (current_stage);
CREATE INDEX idx_sites_updated_at ON sites USING btree (updated_at);
CREATE INDEX pipeline_transitions_errors ON pipeline_transitions USING btree (error_at) WHERE (error_at IS NOT NULL);
CREATE INDEX procrastinate_events_job_id_fkey_v1 ON procrastinate_events USING btree (job_id);
CREATE INDEX procrastinate_jobs_id_lock_idx_v1 ON procrastinate_jobs USING btree (id, lock) WHERE (status = ANY (ARRAY['todo'::procrastinate_job_status, 'doing'::procrastinate_job_status]));
CREATE INDEX procrastinate_jobs_priority_idx_v1 ON procrastinate_jobs USING btree (priority DESC, id) WHERE (status = 'todo'::procrastinate_job_status);
CREATE INDEX procrastinate_jobs_queue_name_idx_v1 ON procrastinate_jobs USING btree (queue_name);
CREATE INDEX procrastinate_periodic_defers_job_id_fkey_v1 ON procrastinate_periodic_defers USING btree (job_id);
CREATE UNIQUE INDEX procrastinate_jobs_lock_idx_v1 ON procrastinate_jobs USING btree (lock) WHERE (status = 'doing'::procrastinate_job_status);
CREATE UNIQUE INDEX procrastinate_jobs_queueing_lock_idx_v1 ON procrastinate_jobs USING btree (queueing_lock) WHERE (status = 'todo'::procrastinate_job_status);
CREATE UNIQUE INDEX uix_cips_content_item_pipeline ON content_item_pipeline_state USING btree (content_item_id, pipeline);
CREATE UNIQUE INDEX uix_content_items_archive ON content_items USING btree (subdomain) WHERE (kind = 'archive'::text);
CREATE UNIQUE INDEX uix_content_items_document ON content_items USING btree (subdomain, kind, meeting, date, occurrence, revision) WHERE (kind <> 'archive'::text);
CREATE UNIQUE INDEX uix_content_items_source_key ON content_items USING btree (subdomain, source_key) WHERE ((source_key IS NOT NULL) AND (superseded_at IS NULL));
CREATE UNIQUE INDEX uix_content_items_storage_key ON content_items USING btree (subdomain, storage_key);
CREATE UNIQUE INDEX uix_pipeline_runs_open ON pipeline_runs USING btree (subdomain) WHERE (ended_at IS NULL);
CREATE UNIQUE INDEX uix_publications_run_content ON publications USING btree (run_id, content_hash);

-- section: functions
-- clerk_abandon_run(p_subdomain text, p_run_id bigint, p_reason text) returns boolean set search_path=pg_catalog, public, pg_temp, md5 1c1937db1a70f39c333167adf61df98b
-- clerk_add_to_counters(p_subdomain text, p_run_id bigint, p_stage text, p_completed integer, p_failed integer) returns void set search_path=pg_catalog, public, pg_temp, md5 82fa4a8fff69df36fc5fcf71b7e93949
-- clerk_advance_phase(p_subdomain text, p_run_id bigint, p_phase integer) returns text set search_path=pg_catalog, public, pg_temp, md5 f74f340176fc884474242ecf1fed92b4
-- clerk_back_off_host(p_host text, p_for interval, p_why text) returns timestamp with time zone set search_path=pg_catalog, public, pg_temp, md5 1f0a40d08c7d9d256c9d07c08bf3dca0
-- clerk_cancel_run(p_subdomain text, p_reason text) returns bigint set search_path=pg_catalog, public, pg_temp, md5 06e2b786e956c353ebd1f8ecd92b29f3
-- clerk_cancel_stale_jobs(p_subdomain text, p_run_id bigint) returns integer set search_path=pg_catalog, public, pg_temp, md5 a6f495e068691893ce857fd1eff70869
-- clerk_check_rejected_result(p_job_id bigint, p_attempt integer, p_status text) returns text set search_path=pg_catalog, public, pg_temp, md5 6dab36faee29c018d43c926c303cf26c
-- clerk_claim_coordinator_enqueue(p_subdomain text) returns boolean set search_path=pg_catalog, public, pg_temp, md5 bf2b4e2db8fb41ed1df241015b8822ef
-- clerk_counters(p_site sites) returns jsonb stable, md5 d41d8cd98f00b204e9800998ecf8427e
-- clerk_defer_coordinator(p_subdomain text, p_run_id bigint, p_phase integer) returns bigint set search_path=pg_catalog, public, pg_temp, md5 d4ae5b6ce76e203bd1de60054dd2eadc
-- clerk_defer_late_unit(p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint) returns bigint set search_path=pg_catalog, public, pg_temp, md5 3a628b5bc3bedc5229b40530805e3fe3
-- clerk_defer_reconciliation() returns boolean set search_path=pg_catalog, public, pg_temp, md5 1a9ef55c4a5a80449c406849ada39c64
-- clerk_defer_refresh(p_subdomain text) returns void set search_path=pg_catalog, public, pg_temp, md5 bb76be7c01cedbc5b0393b3e68c6698b
-- clerk_defer_unit(p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint) returns bigint set search_path=pg_catalog, public, pg_temp, md5 5c344df9a9d6aef90eac0c23cc80c88b
-- clerk_end_run(p_subdomain text, p_run_id bigint, p_outcome text, p_reason text, p_error_code text) returns void set search_path=pg_catalog, public, pg_temp, md5 ea7298fffb0da56d68c1d69596a0e706
-- clerk_expedite_retries(p_subdomain text, p_run_id bigint, p_stage text) returns integer set search_path=pg_catalog, public, pg_temp, md5 30d8ff4e224c23d30c3dda4c1fcbe276
-- clerk_fence() returns trigger set search_path=pg_catalog, public, pg_temp, md5 7138cbb5b54c00377a2fe607c3e13f52
-- clerk_fetch_job(p_queues text[], p_worker_id bigint) returns procrastinate_jobs set search_path=pg_catalog, public, pg_temp, md5 3ec60d12fb647fe7d1e20ed517e2cc1e
-- clerk_fetch_jobs(p_queues text[], p_worker_id bigint, p_slots integer) returns SETOF procrastinate_jobs set search_path=pg_catalog, public, pg_temp, md5 7183ae5f1faf0a0fecdc384e73224aa2
-- clerk_first_event_since(p_since timestamp with time zone) returns bigint stable security definer set search_path=pg_catalog, public, pg_temp, md5 0437231ccf1e0448e4fd98894c8d84d9
-- clerk_has_live_job(p_subdomain text, p_run_id bigint) returns boolean stable set search_path=pg_catalog, public, pg_temp, md5 acfa90bde17cc84bd3ce4b0afb4c199d
-- clerk_hold_paused() returns trigger set search_path=pg_catalog, public, pg_temp, md5 444d5373e8b41b4ad555260fba64079b
-- clerk_import_legacy_site(p_subdomain text, p_documents jsonb, p_phase integer, p_started_at timestamp with time zone, p_updated_at timestamp with time zone) returns bigint set search_path=pg_catalog, public, pg_temp, md5 01b4dbd167b857613447fa39bb677758
-- clerk_increment_completed(p_subdomain text, p_stage text) returns void set search_path=pg_catalog, public, pg_temp, md5 5fb99893bd942436bdc409083db8392a
-- clerk_increment_failed(p_subdomain text, p_stage text, p_message text, p_class text) returns void set search_path=pg_catalog, public, pg_temp, md5 b00c4a8bb6c5c76d814f6fcb054b4be8
-- clerk_initialize_stage(p_subdomain text, p_stage text, p_total_jobs integer) returns void set search_path=pg_catalog, public, pg_temp, md5 80903daf8abee9300405a9e6b582be84
-- clerk_is_permanent_failure(p_status text, p_error_code text) returns boolean immutable set search_path=pg_catalog, public, pg_temp, md5 54558ec61b3c3a129bd5ac11b3af6f27
-- clerk_last_progress(p_subdomain text, p_run_id bigint) returns timestamp with time zone stable set search_path=pg_catalog, public, pg_temp, md5 b05ee8fdfd2865340bcf42330ce33b00
-- clerk_mark_files_lost(p_content_item_id bigint, p_stage text, p_message text, p_pdf_missing boolean) returns boolean set search_path=pg_catalog, public, pg_temp, md5 dce5acbd138e2e912be73ff82f180c61
-- clerk_mark_processed(p_content_item_id bigint, p_page_count integer) returns boolean set search_path=pg_catalog, public, pg_temp, md5 b97ac5d4011190d87cc03d84e3d5114f
-- clerk_missing_units(p_subdomain text) returns TABLE(stage text, content_item_id bigint, late boolean) stable set search_path=pg_catalog, public, pg_temp, md5 6565453f7610043df2ed94207c8bda9c
-- clerk_notify_queue(p_queue text) returns void set search_path=pg_catalog, public, pg_temp, md5 ac854943b67c80105934f4b0de96ae26
-- clerk_now() returns timestamp with time zone stable, md5 d41d8cd98f00b204e9800998ecf8427e
-- clerk_open_run(p_subdomain text) returns bigint stable set search_path=pg_catalog, public, pg_temp, md5 bfc7f5716c475a0cc2ae457eb35036da
-- clerk_pause_queue(p_queue text, p_by text) returns boolean set search_path=pg_catalog, public, pg_temp, md5 b041fb18168c58ae582aba90d011da95
-- clerk_pause_site(p_subdomain text, p_by text) returns boolean set search_path=pg_catalog, public, pg_temp, md5 dbbe4e183ad25539eb80f6a77e88a7bd
-- clerk_paused_until() returns timestamp with time zone immutable set search_path=pg_catalog, public, pg_temp, md5 e897e6274c073f4477e9eaa99862daac
-- clerk_phase(p_stage text) returns integer immutable, md5 d41d8cd98f00b204e9800998ecf8427e
-- clerk_phase_outcome(p_subdomain text, p_phase integer, OUT outcome text, OUT reason text) returns record stable set search_path=pg_catalog, public, pg_temp, md5 5b0954d93ade37a9b23f8d8019717658
-- clerk_record_change() returns trigger set search_path=pg_catalog, public, pg_temp, md5 74a6c92813f3c88139e9f49af184191f
-- clerk_record_coordinator_error() returns trigger set search_path=pg_catalog, public, pg_temp, md5 524a510ebf7170d47d3159ba47aa721c
-- clerk_record_delete() returns trigger set search_path=pg_catalog, public, pg_temp, md5 4cfcabf8e88b5cd4caf83e2fdcb8c5c6
-- clerk_recount_site(p_subdomain text) returns void set search_path=pg_catalog, public, pg_temp, md5 6d176028fe38d4b7523437c55c0fe25d
-- clerk_redefer_coordinator(p_subdomain text) returns boolean set search_path=pg_catalog, public, pg_temp, md5 5aec04fab74fa26daf77b7d8fb80942b
-- clerk_redefer_unit(p_content_item_id bigint, p_stage text) returns boolean set search_path=pg_catalog, public, pg_temp, md5 511cb9cc00fb5acf8e182a26d6af8e66
-- clerk_release_host_slot(p_slot_id bigint) returns void set search_path=pg_catalog, public, pg_temp, md5 afdbcfbb4a33b3396a37d9afd262be75
-- clerk_release_paused_jobs(p_subdomain text) returns integer set search_path=pg_catalog, public, pg_temp, md5 f7cd3686e4fb92529ec48deae61f412b
-- clerk_remove_finished_jobs(p_before timestamp with time zone, p_batch integer) returns integer set search_path=pg_catalog, public, pg_temp, md5 703b6a2c738fffdd600dc93cb4d45c92
-- clerk_renew_host_slot(p_slot_id bigint, p_lease interval) returns boolean set search_path=pg_catalog, public, pg_temp, md5 9cec0c9fd7d08ae22ca03b235c65aeab
-- clerk_renew_leases(p_jobs bigint[]) returns SETOF bigint set search_path=pg_catalog, public, pg_temp, md5 3f46df9c0e0da431288b3008409c867e
-- clerk_reopen_unit(p_job_id bigint, p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint) returns text set search_path=pg_catalog, public, pg_temp, md5 1872cea04056593c83ee4376655e7d24
-- clerk_reopen_units(p_subdomain text, p_run_id bigint, p_stage text, p_items bigint[]) returns integer set search_path=pg_catalog, public, pg_temp, md5 3d8b9bb415faa1cdbeef81612ccb2b15
-- clerk_repair_claim(p_job_id bigint) returns boolean set search_path=pg_catalog, public, pg_temp, md5 2124b2fabd22c6fc49b4bbf5a4c45f97
-- clerk_repair_run(p_run_id bigint) returns boolean set search_path=pg_catalog, public, pg_temp, md5 4b3a01deea58a2586ca47e05e1b9ae1d
-- clerk_repair_units(p_subdomain text) returns void set search_path=pg_catalog, public, pg_temp, md5 68c8485064ce015b9b7744fac7532d6e
-- clerk_report_progress(p_job_id bigint, p_attempt integer, p_done integer, p_total integer) returns boolean set search_path=pg_catalog, public, pg_temp, md5 c5dde7285f54f7f3a8a53abbb35e7994
-- clerk_rescue_job(p_job_id bigint) returns text set search_path=pg_catalog, public, pg_temp, md5 9e277ae9351c745d83cbde1b72f8b84d
-- clerk_reserve_host_slot(p_host text, p_interval interval, p_concurrency integer, p_lease interval, OUT slot_id bigint, OUT wait interval) returns record set search_path=pg_catalog, public, pg_temp, md5 14e5cdb6227cfc1a89e2e7afa5244b68
-- clerk_resume_queue(p_queue text) returns boolean set search_path=pg_catalog, public, pg_temp, md5 846235c43cc9ec7eb27cb16012e457a0
-- clerk_resume_site(p_subdomain text) returns boolean set search_path=pg_catalog, public, pg_temp, md5 a4dbfe57052a6009e07eded6093e4faf
-- clerk_retry_failed(p_subdomain text, p_stage text, p_failed_only boolean, OUT run_id bigint, OUT stage text, OUT units integer) returns record set search_path=pg_catalog, public, pg_temp, md5 967db0d70f45a4761953e618e9321ed0
-- clerk_retry_units(p_subdomain text, p_stage text, p_items bigint[], OUT run_id bigint, OUT units integer) returns record set search_path=pg_catalog, public, pg_temp, md5 1783218fcb1a5af02561120818deed90
-- clerk_rewind(p_subdomain text, p_stage text) returns bigint set search_path=pg_catalog, public, pg_temp, md5 c75315063a8e735e61d1f4a82ea6912f
-- clerk_run_is_active(p_run_id bigint) returns boolean stable set search_path=pg_catalog, public, pg_temp, md5 03385cc3d6421b2efeaeb981ccc55ab5
-- clerk_run_phase(p_subdomain text, p_run_id bigint) returns integer stable set search_path=pg_catalog, public, pg_temp, md5 d4e6bd2590f08eb884ee8f7f14a2e2cc
-- clerk_save_legacy_site() returns trigger set search_path=pg_catalog, public, pg_temp, md5 68d041ed2243b8eee062ba5e1397114c
-- clerk_settle_late_unit(p_job_id bigint, p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint, p_succeeded boolean) returns boolean set search_path=pg_catalog, public, pg_temp, md5 8a97511d32a7ecfdf110cb8958400dc3
-- clerk_settle_unit(p_job_id bigint, p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint, p_succeeded boolean, p_error_code text, p_error_message text) returns text set search_path=pg_catalog, public, pg_temp, md5 582e93e9e5afbb698c5d9aa859434876
-- clerk_should_trigger_coordinator(p_subdomain text, p_stage text) returns boolean stable set search_path=pg_catalog, public, pg_temp, md5 74e452f0a2e94ee45ccccef3c0494560
-- clerk_start_next_due_site(p_reason text) returns text set search_path=pg_catalog, public, pg_temp, md5 3e7f13e7db290bfc393ca0892c356bc3
-- clerk_start_phase(p_subdomain text, p_run_id bigint, p_phase integer, p_units bigint[]) returns integer set search_path=pg_catalog, public, pg_temp, md5 23713cfda658952c7331b204fdc0aa57
-- clerk_start_refresh_run(p_subdomain text) returns bigint set search_path=pg_catalog, public, pg_temp, md5 90ff4b75d53e4a8395badbcbc34ff2a7
-- clerk_start_run(p_subdomain text, p_reason text, p_supersede boolean, p_first_phase integer, p_units bigint[]) returns bigint set search_path=pg_catalog, public, pg_temp, md5 8eeb2544d0e3b7e7dda3b327895010cc
-- clerk_state_snapshot(p_subdomain text, p_run_id bigint, p_content_item_id bigint, p_stage text) returns jsonb stable set search_path=pg_catalog, public, pg_temp, md5 51a3448dee4532938ba3ab430aa62679
-- clerk_stop_jobs(p_jobs bigint[]) returns void set search_path=pg_catalog, public, pg_temp, md5 a45dc0642ed8e1681abde7ae5e4851dc
-- clerk_supersede_run(p_subdomain text, p_reason text) returns bigint set search_path=pg_catalog, public, pg_temp, md5 88d25c11d8e657e2147fa1ae79918504
-- clerk_sync_legacy_columns() returns trigger set search_path=pg_catalog, public, pg_temp, md5 17d9709bafaee947a8b8b8bfc8ced385
-- clerk_units_left(p_site sites, p_phase integer) returns integer immutable, md5 d41d8cd98f00b204e9800998ecf8427e
-- clerk_units_of_phase(p_subdomain text, p_phase integer, p_units bigint[]) returns TABLE(content_item_id bigint, stage text) stable set search_path=pg_catalog, public, pg_temp, md5 4b043008b798753095f064b0d60b0743
-- procrastinate_cancel_job_v1(job_id bigint, abort boolean, delete_job boolean) returns bigint, md5 c0d697b1888adf16d461d95a4bd62a91
-- procrastinate_defer_jobs_v1(jobs procrastinate_job_to_defer_v1[]) returns bigint[], md5 cda05c8fd075e6bddc6009a469277f0a
-- procrastinate_defer_periodic_job_v2(_queue_name character varying, _lock character varying, _queueing_lock character varying, _task_name character varying, _priority integer, _periodic_id character varying, _defer_timestamp bigint, _args jsonb) returns bigint, md5 cd307268cbf00da43d220607f4825cfc
-- procrastinate_fetch_job_v2(target_queue_names character varying[], p_worker_id bigint) returns procrastinate_jobs, md5 6e0906e2a5765ba6712446c4b6cdc383
-- procrastinate_finish_job_v1(job_id bigint, end_status procrastinate_job_status, delete_job boolean) returns void, md5 26122e175ba53dd730dbebfc4fcfcc96
-- procrastinate_notify_queue_abort_job_v1() returns trigger, md5 1eeb404ee7c38d7a004144859991ff52
-- procrastinate_notify_queue_job_inserted_v1() returns trigger, md5 b7d5e772d5a8bd7146c945b20ff463cf
-- procrastinate_prune_stalled_workers_v1(seconds_since_heartbeat double precision) returns TABLE(worker_id bigint), md5 cf97c7f19e278de929667b81ce23a2b5
-- procrastinate_register_worker_v1() returns TABLE(worker_id bigint), md5 b2d846e95b89d9986755c08dac3bd9ab
-- procrastinate_retry_job_v1(job_id bigint, retry_at timestamp with time zone, new_priority integer, new_queue_name character varying, new_lock character varying) returns void, md5 e893c44b560b6598398850dca9b90e24
-- procrastinate_retry_job_v2(job_id bigint, retry_at timestamp with time zone, new_priority integer, new_queue_name character varying, new_lock character varying) returns void, md5 b6ef705ce25cc95d9e874edb7b16c649
-- procrastinate_trigger_abort_requested_events_procedure_v1() returns trigger, md5 ebfb34a39e7709e3776a621ee0c23c20
-- procrastinate_trigger_function_scheduled_events_v1() returns trigger, md5 15d83b8cb2ec9005f34a0cac0a968e84
-- procrastinate_trigger_function_status_events_insert_v1() returns trigger, md5 ca57230cdc4150240877c4af109ca93b
-- procrastinate_trigger_function_status_events_update_v1() returns trigger, md5 1432879aaa3e839c8d8dba141ea5ce9f
-- procrastinate_unlink_periodic_defers_v1() returns trigger, md5 42918d9b1db6890656d7b390e368633f
-- procrastinate_unregister_worker_v1(worker_id bigint) returns void, md5 2e90b448ca8f1ad59108a992fc1460da
-- procrastinate_update_heartbeat_v1(worker_id bigint) returns void, md5 3be7254d443daa709bf935899e2f8e22

-- section: triggers
CREATE TRIGGER clerk_fence BEFORE UPDATE OF status ON procrastinate_jobs FOR EACH ROW WHEN (((old.status IS DISTINCT FROM new.status) AND (new.status <> 'doing'::procrastinate_job_status))) EXECUTE FUNCTION clerk_fence();
CREATE TRIGGER clerk_hold_paused BEFORE INSERT ON procrastinate_jobs FOR EACH ROW WHEN ((new.status = 'todo'::procrastinate_job_status)) EXECUTE FUNCTION clerk_hold_paused();
CREATE TRIGGER clerk_hold_paused_retry BEFORE UPDATE OF status ON procrastinate_jobs FOR EACH ROW WHEN (((new.status = 'todo'::procrastinate_job_status) AND (old.status IS DISTINCT FROM new.status))) EXECUTE FUNCTION clerk_hold_paused();
CREATE TRIGGER clerk_record_change AFTER UPDATE OF status ON procrastinate_jobs FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION clerk_record_change();
CREATE TRIGGER clerk_record_coordinator_error AFTER UPDATE OF status ON procrastinate_jobs FOR EACH ROW WHEN (((old.status = 'doing'::procrastinate_job_status) AND (new.status = ANY (ARRAY['todo'::procrastinate_job_status, 'failed'::procrastinate_job_status, 'aborted'::procrastinate_job_status])) AND ((new.task_name)::text = 'clerk.coordinate'::text))) EXECUTE FUNCTION clerk_record_coordinator_error();
CREATE TRIGGER clerk_record_delete AFTER DELETE ON procrastinate_jobs FOR EACH ROW EXECUTE FUNCTION clerk_record_delete();
CREATE TRIGGER clerk_save_legacy_site BEFORE UPDATE OF run_id ON sites FOR EACH ROW WHEN (((old.run_id IS NULL) AND (new.run_id IS NOT NULL))) EXECUTE FUNCTION clerk_save_legacy_site();
CREATE TRIGGER clerk_sync_legacy_columns BEFORE UPDATE OF current_stage, outcome, run_id ON sites FOR EACH ROW WHEN ((((old.current_stage)::text IS DISTINCT FROM (new.current_stage)::text) OR ((old.outcome)::text IS DISTINCT FROM (new.outcome)::text) OR (old.run_id IS DISTINCT FROM new.run_id))) EXECUTE FUNCTION clerk_sync_legacy_columns();
CREATE TRIGGER clerk_sync_legacy_columns_on_insert BEFORE INSERT ON sites FOR EACH ROW WHEN (((new.status IS NULL) AND (new.current_stage IS NULL))) EXECUTE FUNCTION clerk_sync_legacy_columns();
CREATE TRIGGER procrastinate_jobs_notify_queue_job_aborted_v1 AFTER UPDATE OF abort_requested ON procrastinate_jobs FOR EACH ROW WHEN (((old.abort_requested = false) AND (new.abort_requested = true) AND (new.status = 'doing'::procrastinate_job_status))) EXECUTE FUNCTION procrastinate_notify_queue_abort_job_v1();
CREATE TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1 AFTER INSERT ON procrastinate_jobs FOR EACH ROW WHEN ((new.status = 'todo'::procrastinate_job_status)) EXECUTE FUNCTION procrastinate_notify_queue_job_inserted_v1();
CREATE TRIGGER procrastinate_trigger_abort_requested_events_v1 AFTER UPDATE OF abort_requested ON procrastinate_jobs FOR EACH ROW WHEN ((new.abort_requested = true)) EXECUTE FUNCTION procrastinate_trigger_abort_requested_events_procedure_v1();
CREATE TRIGGER procrastinate_trigger_delete_jobs_v1 BEFORE DELETE ON procrastinate_jobs FOR EACH ROW EXECUTE FUNCTION procrastinate_unlink_periodic_defers_v1();
CREATE TRIGGER procrastinate_trigger_scheduled_events_v1 AFTER INSERT OR UPDATE ON procrastinate_jobs FOR EACH ROW WHEN (((new.scheduled_at IS NOT NULL) AND (new.status = 'todo'::procrastinate_job_status))) EXECUTE FUNCTION procrastinate_trigger_function_scheduled_events_v1();
CREATE TRIGGER procrastinate_trigger_status_events_insert_v1 AFTER INSERT ON procrastinate_jobs FOR EACH ROW WHEN ((new.status = 'todo'::procrastinate_job_status)) EXECUTE FUNCTION procrastinate_trigger_function_status_events_insert_v1();
CREATE TRIGGER procrastinate_trigger_status_events_update_v1 AFTER UPDATE OF status ON procrastinate_jobs FOR EACH ROW EXECUTE FUNCTION procrastinate_trigger_function_status_events_update_v1();

-- section: views
-- claim_mismatches (job_id bigint, subdomain text, stage text, problem text)
-- completions_per_hour (hour timestamp with time zone, stage text, completed bigint, failed bigint)
-- coordinator_errors (at timestamp with time zone, subdomain character varying, run_id bigint, phase smallint, error_code text, error_message text, deferred_count integer, advanced_at timestamp with time zone)
-- counter_mismatches (invariant text, subdomain character varying, run_id bigint, stage text, problem text, differs boolean, in_motion boolean)
-- current_runs (subdomain character varying, name character varying, current_stage character varying, phase integer, outcome character varying, updated_at timestamp with time zone, coordinator_enqueued boolean, dirty boolean, paused_at timestamp with time zone, paused_by text, run_interval interval, due_at timestamp with time zone, last_error_stage character varying, last_error_message text, last_error_at timestamp with time zone, fetch_total integer, fetch_completed integer, fetch_failed integer, ocr_total integer, ocr_completed integer, ocr_failed integer, compilation_total integer, compilation_completed integer, compilation_failed integer, extraction_total integer, extraction_completed integer, extraction_failed integer, deploy_total integer, deploy_completed integer, deploy_failed integer, run_id bigint, reason text, started_at timestamp with time zone, ended_at timestamp with time zone, outcome_reason text, deployed_at timestamp with time zone, announced_at timestamp with time zone, skipped integer, skipped_examples text[])
-- due_sites (subdomain character varying, updated_at timestamp with time zone, run_interval interval)
-- duplicate_publications (subdomain character varying, run_id bigint, publication_id bigint, deployer text, content_hash text, site_updated_at timestamp with time zone)
-- expected_counters (subdomain character varying, run_id bigint, fetch_total bigint, fetch_completed bigint, fetch_failed bigint, ocr_total bigint, ocr_completed bigint, ocr_failed bigint, compilation_total bigint, compilation_completed bigint, compilation_failed bigint, extraction_total bigint, extraction_completed bigint, extraction_failed bigint, deploy_total bigint, deploy_completed bigint, deploy_failed bigint)
-- expired_claims (job_id bigint, queue_name character varying(128), task_name character varying(128), subdomain text, stage text, holder text, attempt integer, lease_until timestamp with time zone)
-- failing_documents (subdomain character varying, stage text, content_item_id bigint, kind text, meeting text, date date, status text, attempt_count integer, error_code text, error_message text, last_attempt_at timestamp with time zone, run_id bigint)
-- invariant_violations (invariant text, subdomain character varying, run_id bigint, stage text, problem text)
-- invariant_violations_full (invariant text, subdomain character varying, run_id bigint, stage text, problem text)
-- jobs_last_minute (stage text, succeeded bigint, failed bigint)
-- missing_coordinators (subdomain character varying, run_id bigint, stage character varying, phase integer, claimed_at timestamp with time zone, deferred_count integer)
-- missing_refreshes (subdomain character varying, run_id bigint)
-- open_coordinators (subdomain character varying, run_id bigint, phase smallint, phase_ended_at timestamp with time zone, deferred_count integer, job_id bigint, queue character varying(128), priority integer, job_status text, attempts integer, scheduled_at timestamp with time zone, worker_id bigint, holder text, claimed_at timestamp with time zone, lease_until timestamp with time zone, state text)
-- open_units (subdomain character varying, run_id bigint, stage text, content_item_id bigint, kind text, meeting text, date date, status text, attempt_count integer, max_attempts integer, error_code text, error_message text, reopened_at timestamp with time zone, job_id bigint, queue character varying(128), priority integer, job_status text, scheduled_at timestamp with time zone, worker_id bigint, holder text, claimed_at timestamp with time zone, lease_until timestamp with time zone, progress integer, progress_total integer, progress_at timestamp with time zone, state text)
-- orphaned_units (subdomain character varying, run_id bigint, stage text, content_item_id bigint, status text, job_id bigint, updated_at timestamp with time zone, late boolean)
-- pipeline_health (sites bigint, never_run bigint, active bigint, completed bigint, failed bigint, paused bigint, dirty bigint, stuck bigint, stuck_percent numeric, health_score numeric, fetch_failure_percent numeric, ocr_failure_percent numeric, compilation_failure_percent numeric, extraction_failure_percent numeric, deploy_failure_percent numeric, last_progress_at timestamp with time zone)
-- pipeline_overview (subdomain character varying, name character varying, current_stage character varying, outcome character varying, run_id bigint, started_at timestamp with time zone, updated_at timestamp with time zone, fetch_total integer, fetch_completed integer, fetch_failed integer, ocr_total integer, ocr_completed integer, ocr_failed integer, compilation_total integer, compilation_completed integer, compilation_failed integer, extraction_total integer, extraction_completed integer, extraction_failed integer, deploy_total integer, deploy_completed integer, deploy_failed integer, last_error_stage character varying, last_error_message text, last_error_at timestamp with time zone, paused boolean, paused_at timestamp with time zone, paused_by text, dirty boolean, run_interval interval, phase integer, phase_total integer, phase_ended integer, phase_began_at timestamp with time zone, percent numeric, rate_per_hour numeric, eta timestamp with time zone, idle_for interval, stuck boolean)
-- queue_backlog (queue character varying, waiting numeric, scheduled numeric, on_hold numeric, running numeric, oldest_waiting_since timestamp with time zone, paused boolean, paused_at timestamp with time zone, paused_by text, rate_per_hour bigint, eta timestamp with time zone)
-- queue_pauses (queue text, paused_at timestamp with time zone, paused_by text)
-- recent_actions (at timestamp with time zone, actor text, via text, action text, subdomain character varying, run_id bigint, detail jsonb)
-- recent_errors (at timestamp with time zone, subdomain character varying, stage text, content_item_id bigint, kind text, meeting text, date date, status text, attempt_count integer, error_code text, error_message text, run_id bigint)
-- recent_events (at timestamp with time zone, kind text, subdomain character varying, what text)
-- recent_ignored_results (at timestamp with time zone, why text, subdomain text, run_id bigint, stage text, content_item_id bigint, job_id bigint, status text, holder text, attempt integer)
-- recent_reconciliations (started_at timestamp with time zone, ended_at timestamp with time zone, seconds double precision, actor text, via text, subdomain character varying, found integer, repaired integer, failed integer, abandoned integer)
-- recent_repairs (at timestamp with time zone, kind text, subdomain character varying, run_id bigint, stage text, found text, done text, why text, error text, id bigint, reconciliation uuid, actor text, before jsonb, after jsonb)
-- run_history (subdomain character varying, run_id bigint, reason text, started_at timestamp with time zone, ended_at timestamp with time zone, took interval, outcome text, outcome_reason text, fetch_total integer, fetch_completed integer, fetch_failed integer, ocr_total integer, ocr_completed integer, ocr_failed integer, compilation_total integer, compilation_completed integer, compilation_failed integer, extraction_total integer, extraction_completed integer, extraction_failed integer, deploy_total integer, deploy_completed integer, deploy_failed integer, skipped integer, skipped_examples text[])
-- run_mismatches (subdomain character varying, run_id bigint, invariant text, stage text, problem text)
-- running_jobs (job_id bigint, queue character varying(128), task_name character varying(128), subdomain text, run_id text, stage text, content_item_id text, worker_id bigint, holder text, host text, pid text, attempt integer, claimed_at timestamp with time zone, running_for interval, lease_until timestamp with time zone, has_lease boolean, progress integer, progress_total integer, progress_at timestamp with time zone)
-- site_documents (subdomain character varying, id bigint, kind text, meeting text, date date, occurrence smallint, revision smallint, lineage_id bigint, source_url text, sha256 text, size_bytes bigint, page_count integer, storage_key text, found_at timestamp with time zone, fetched_at timestamp with time zone, checked_at timestamp with time zone, superseded_at timestamp with time zone, removed_at_source timestamp with time zone, pdf_missing_since timestamp with time zone, fetch_error_code text, fetch_error_message text, fetch_failed_at timestamp with time zone, ocr_status text, ocr_attempts integer, ocr_error_code text, ocr_error_message text, ocr_last_attempt_at timestamp with time zone, ocr_processed_at timestamp with time zone, ocr_run_id bigint, ocr_took interval, extraction_status text, extraction_attempts integer, extraction_error_code text, extraction_error_message text, extraction_last_attempt_at timestamp with time zone, extraction_processed_at timestamp with time zone, extraction_run_id bigint, extraction_took interval, state text)
-- site_publications (subdomain character varying, id bigint, run_id bigint, content_hash text, pages integer, begun_at timestamp with time zone, deployed_at timestamp with time zone, announced_at timestamp with time zone, withdrawn_at timestamp with time zone, withdrawn_by text, lost_copy boolean, steps text)
-- site_sources (subdomain character varying, name character varying, state character varying, country character varying, kind character varying, scraper character varying, start_year integer, pages integer, address text, folder text)
-- stage_durations (stage text, runs bigint, median interval, p90 interval, longest interval, jobs bigint, job_median interval, job_p90 interval, wait_median interval, wait_p90 interval)
-- stale_jobs (job_id bigint, queue_name character varying(128), subdomain text, run_id bigint)
-- stuck_sites (subdomain character varying, name character varying, current_stage character varying, run_id bigint, updated_at timestamp with time zone, idle_for interval, phase_ended integer, phase_total integer, percent numeric, last_error_stage character varying, last_error_message text, last_error_at timestamp with time zone)
-- throttled_hosts (subdomain character varying, host text, next_at timestamp with time zone, held_until timestamp with time zone, held_why text)
-- trigger_problems (name text, problem text)
-- waiting_jobs (job_id bigint, queue character varying(128), priority integer, task_name character varying(128), subdomain text, scheduled_at timestamp with time zone, state text, queueing_lock text)
-- worker_status (worker_id bigint, holder text, host text, pid text, queues text[], registered_at timestamp with time zone, last_heartbeat timestamp with time zone, heartbeat_age interval, alive boolean, running bigint, doing text)
-- wrongly_paused_jobs (job_id bigint, queue_name character varying(128), subdomain text)

-- section: comments
comment on column clerk_procrastinate.complete is 'False for a single migration file of an upgrade. An interrupted upgrade continues after these.';
comment on column clerk_procrastinate.functions is 'Checksum of each installed function, by which verify detects manual changes.';
comment on column completions_per_hour.completed is 'Counted in the hour in which the run ended; for the current rate see queue_backlog.rate_per_hour.';
comment on column completions_per_hour.stage is 'One of the five stages, counting units, or "completed", counting runs.';
comment on column content_item_pipeline_state.attempt_count is 'Attempts begun in the present run.';
comment on column content_item_pipeline_state.error_code is 'Code of the last error, as in PdfEncrypted. clerk/errors.py has the list.';
comment on column content_item_pipeline_state.job_id is 'The Procrastinate job that carries the unit; no foreign key, since finished jobs are removed.';
comment on column content_item_pipeline_state.pipeline is 'The stage: fetch, ocr, compilation, extraction or deploy.';
comment on column content_item_pipeline_state.reopened_at is 'Set when a failed unit was retried after its phase (a late unit). If it succeeds, counters are corrected and the site is dirty.';
comment on column content_item_pipeline_state.run_id is 'The run that this state belongs to.';
comment on column content_items.checked_at is 'When the source last confirmed this content.';
comment on column content_items.fetch_error_code is 'Code of the error that ended the last download; NULL when it succeeded.';
comment on column content_items.fetch_failed_at is 'When a failure that counts happened: a new one, or one that may pass.';
comment on column content_items.fetched_at is 'When this content arrived; later than the ledger''s word on it means: read it again.';
comment on column content_items.last_modified is 'As the server sent it: it is given back word for word.';
comment on column content_items.lineage_id is 'The first revision of this document; NULL for a first revision.';
comment on column content_items.meeting is 'The body that met, as named by the source.';
comment on column content_items.occurrence is 'The body''s first, second, … meeting of that day, so that a second one never hides the first.';
comment on column content_items.pdf_missing_since is 'Since when the stored PDF is known to be missing or damaged. The next fetch downloads it unconditionally; until then it is not processed.';
comment on column content_items.removed_at_source is 'Since when the source no longer lists the document. It stays in the archive.';
comment on column content_items.revision is 'The first, second, … PDF published for that meeting: a revised one is a new row, and the older stays known.';
comment on column content_items.source_key is 'What stays the same at the source when the document is revised: the vendor''s id, or the address.';
comment on column content_items.source_version is 'The source''s own word for this content, such as a publication time; the same word means no request.';
comment on column content_items.storage_key is 'Path of the PDF below the site''s folder.';
comment on column content_items.superseded_at is 'Since when a later revision is known. The archive shows the newest of a series that could be read.';
comment on column coordinator_errors.advanced_at is 'NULL: it has not succeeded since.';
comment on column counter_mismatches.differs is 'False: counters and ledger agree on an impossible state, such as more units ended than there are. Counting again does not help.';
comment on column counter_mismatches.in_motion is 'The run is active, the site changed within three hours, or its counters are not those with which its run ended. A filter on this avoids reading the ledger of idle sites.';
comment on column current_runs.deployed_at is 'When this run published; announced_at: when its post-deploy hooks were done.';
comment on column current_runs.due_at is 'When the next run is due; NULL: now.';
comment on column current_runs.skipped is 'Entries of the source that the fetch of this run skipped; skipped_examples: the first 20, with reasons.';
comment on column fetch_hosts.held_until is 'The host asked to be left alone until then (Retry-After).';
comment on column job_claims.holder is 'application_name of the worker process, unique per process.';
comment on column job_claims.progress is 'Steps done, such as pages read, of progress_total.';
comment on column job_claims.settled_as is 'How this claim ended: the status that the job went to. A worker whose answer got lost recognises its own result by it.';
comment on column job_claims.settled_by is 'The holder, or the repair or operator action that took the job away.';
comment on column jobs_last_minute.failed is 'Permanently failed; a job that will be retried has not ended.';
comment on column legacy_schema.as_found is 'NULL for what the migration added.';
comment on column open_coordinators.job_id is 'NULL: the coordinator is missing, and reconciliation will defer it again.';
comment on column open_coordinators.state is 'As in open_units.';
comment on column open_units.job_id is 'NULL: its job ended or was deleted without accounting, and reconciliation will defer a new one.';
comment on column open_units.lease_until is 'NULL for a running job: no worker holds it.';
comment on column open_units.state is 'running; lost: running without a live lease; waiting: for a worker; later: for the time of its retry; paused; orphaned: no job.';
comment on column operator_actions.action is 'retry, cancel, pause, resume, rewind, supersede, rollback, reconcile, clean up, undo clean-up.';
comment on column operator_actions.actor is 'The setting clerk.operator, which commands and dashboard set to the person; otherwise the database user.';
comment on column operator_actions.run_id is 'The run that was started, changed or ended.';
comment on column operator_actions.subdomain is 'No foreign key: the history outlives the site.';
comment on column operator_actions.via is 'The setting clerk.via: cli, dashboard, …; sql where nobody set it.';
comment on column orphaned_units.late is 'The phase of the unit is over, so the run does not wait for it.';
comment on column pipeline_health.failed is 'Sites whose last run ended as failed.';
comment on column pipeline_health.health_score is 'Percentage of sites that have ever run and are not stuck; normally 100.';
comment on column pipeline_health.ocr_failure_percent is 'Failed units of the stage, in the current or last run of each site. Likewise the other stages.';
comment on column pipeline_health.stuck_percent is 'Of the sites with an active run.';
comment on column pipeline_overview.eta is 'When the current phase will end at its rate so far; NULL while paused, and before its first unit has ended.';
comment on column pipeline_overview.idle_for is 'Time since the last progress of an active run.';
comment on column pipeline_overview.percent is 'Of the current run: each of the four phases is a quarter, whatever the number of its units. 100 when completed.';
comment on column pipeline_overview.phase is '1 to 4 while a run is active, else NULL.';
comment on column pipeline_overview.phase_ended is 'Units of the current phase that have succeeded or failed, of phase_total.';
comment on column pipeline_overview.rate_per_hour is 'Units ended per hour since the current phase began.';
comment on column pipeline_overview.stuck is 'A run is active, the site is not paused, there was no progress for two hours, and none of its jobs has a live lease.';
comment on column pipeline_runs.counters is 'Counters of the site when the run ended: {stage: {total, completed, failed}}. NULL: the run is open, or was superseded without them.';
comment on column pipeline_runs.reason is 'Why the run was started, for a person: "scheduled", "late documents processed", …';
comment on column pipeline_runs.run_id is 'The fencing token: it only grows, so a job of an older run is recognised.';
comment on column pipeline_runs.skipped is 'Entries of the source that this run''s fetch skipped because they are not documents.';
comment on column pipeline_runs.skipped_examples is 'Which and why: the first 20.';
comment on column pipeline_transitions.advanced_at is 'When the one accepted advance out of this phase happened.';
comment on column pipeline_transitions.deferred_count is 'How often the coordinator was deferred: more than once when a lost one was replaced.';
comment on column pipeline_transitions.error_code is 'Error code of the coordinator''s last failed attempt.';
comment on column publication_steps.result is 'What the deployer said, such as where it put the archive.';
comment on column publications.announced_at is 'When every post_deploy hook was done.';
comment on column publications.content_hash is 'Of the whole database; docs/archive.md says how it is made.';
comment on column publications.deployed_at is 'When the last of the site''s deployers was done.';
comment on column publications.lost_copy is 'The same content as before went out once more, since the published copy was gone or damaged.';
comment on column publications.withdrawn_at is 'When an operator rolled it back: the same content is not published again on its own.';
comment on column queue_backlog.eta is 'When the queue will be empty at that rate if no job is added; NULL while paused, and if no job ended.';
comment on column queue_backlog.oldest_waiting_since is 'Since when the oldest waiting job has been waiting.';
comment on column queue_backlog.on_hold is 'Waiting for their queue or site to be resumed.';
comment on column queue_backlog.rate_per_hour is 'Jobs that succeeded or failed in the last hour.';
comment on column queue_backlog.scheduled is 'Waiting for their scheduled time: a retry after its backoff, a periodic task.';
comment on column recent_actions.action is 'retry, cancel, pause, resume, rewind, update, supersede (an open run by a new one), rollback, reconcile, empty Redis, clean up, undo clean-up.';
comment on column recent_actions.actor is 'The person, if the command or dashboard knew it; otherwise the database user.';
comment on column recent_actions.run_id is 'The run that was started, changed or ended.';
comment on column recent_actions.via is 'cli, dashboard, or sql for a direct call.';
comment on column recent_errors.status is 'failed_terminal, failed_retryable (will be retried), or "not fetched": the download failed.';
comment on column recent_events.what is 'Why the run started, its outcome, what the repair found and did, or the interface of the operator action.';
comment on column recent_ignored_results.why is 'fenced: another claim held the job. stale: the run had ended, or the unit had another job.';
comment on column recent_reconciliations.abandoned is 'Runs that were ended as failed because the same repair had made no progress three times.';
comment on column recent_reconciliations.ended_at is 'NULL: in progress, or interrupted.';
comment on column recent_reconciliations.found is 'Planned repairs. Those that were no longer needed when applied are counted here only.';
comment on column recent_reconciliations.subdomain is 'NULL: all sites.';
comment on column recent_reconciliations.via is 'worker (every 15 minutes), cli (a timer or a person), dashboard.';
comment on column recent_repairs.before is 'The rows concerned, before the repair; after: after it.';
comment on column recent_repairs.error is 'Why the repair failed; NULL if it was applied.';
comment on column recent_repairs.kind is 'What was found, as a stable identifier; lease: a job without a live lease was rescued.';
comment on column recent_repairs.reconciliation is 'The same for all repairs of one reconciliation.';
comment on column reconcile_log.error is 'Why the repair failed; NULL if it was applied.';
comment on column reconcile_log.kind is 'What was found, as a stable identifier. The same site, run, stage and kind is the same repair, repeated.';
comment on column reconcile_log.reconciliation is 'Repairs of one pass share this.';
comment on column reconcile_log.subdomain is 'No foreign key: the log outlives the site.';
comment on column reconcile_runs.abandoned is 'Runs that were ended as failed because the same repair had made no progress three times.';
comment on column reconcile_runs.ended_at is 'NULL: in progress, or interrupted.';
comment on column reconcile_runs.found is 'Repairs planned. Those whose cause had disappeared before they were applied are counted here only.';
comment on column reconcile_runs.reconciliation is 'As in reconcile_log, which has its repairs.';
comment on column reconcile_runs.subdomain is 'NULL: all sites.';
comment on column reconcile_runs.via is 'worker, cli, dashboard, …';
comment on column run_history.ocr_total is 'Counter at the end of the run; NULL while it is active (see pipeline_overview). Likewise the others.';
comment on column run_history.skipped is 'Entries of the source that its fetch skipped; 0 also if it fetched nothing. skipped_examples: the first 20, with reasons.';
comment on column run_history.took is 'Until now, while the run is active.';
comment on column running_jobs.has_lease is 'False: its worker is dead, frozen or past the time limit, and the job will be rescued.';
comment on column running_jobs.host is 'From the holder''s name; NULL for a worker that is not part of clerk.';
comment on column running_jobs.progress is 'Steps done, such as pages, of progress_total.';
comment on column running_jobs.run_id is 'From the job''s arguments; text, because arguments are not validated.';
comment on column site_documents.lineage_id is 'The same for all revisions of a document, also if its date changed.';
comment on column site_documents.ocr_attempts is 'Attempts in the last run that processed it. Likewise extraction_attempts.';
comment on column site_documents.ocr_took is 'Duration of the last attempt; NULL while it runs, and after its job has been deleted. Likewise extraction_took.';
comment on column site_documents.state is 'failed: permanently in a stage, or the download failed; open: a stage is still to come or to be repeated; done.';
comment on column site_documents.superseded_at is 'Since when a newer revision is known; NULL for the newest.';
comment on column site_publications.lost_copy is 'The same content was published again because the published copy was missing or damaged.';
comment on column site_publications.steps is 'Deployers that have finished, each with its result, such as the location.';
comment on column site_sources.address is 'The first URL in the site''s extra, without user, password and query, which may be secret.';
comment on column site_sources.folder is 'The folder from which its documents are taken, if its source is a folder.';
comment on column site_sources.pages is 'Pages in its archive when last published.';
comment on column sites.coordinator_enqueued is 'The coordinator that ends the present phase has been claimed.';
comment on column sites.current_stage is 'fetch, ocr, compilation, extraction, deploy or completed; NULL before the first run. While compilation and extraction run side by side: extraction.';
comment on column sites.dirty is 'A late unit succeeded, so the archive is out of date: the site needs a run from phase 3.';
comment on column sites.extra is 'JSON for the fetcher, as text.';
comment on column sites.extraction_status is 'Older system''s; kept until the clean-up.';
comment on column sites.last_deployed is 'Older system''s; kept until the clean-up.';
comment on column sites.last_error_message is '"Code: message", cut to 500 characters.';
comment on column sites.last_extracted is 'Older system''s; kept until the clean-up.';
comment on column sites.last_updated is 'Older system''s; kept until the clean-up.';
comment on column sites.outcome is 'How the last run ended: succeeded, partial, failed, unchanged, no_documents or cancelled; NULL while one is going.';
comment on column sites.pages is 'Pages in the published archive.';
comment on column sites.paused_at is 'Since when the site''s jobs are on hold; NULL when they are not.';
comment on column sites.paused_by is 'Who paused it and why, for a person.';
comment on column sites.run_id is 'The current run, or the last one: the fencing token of every job.';
comment on column sites.run_interval is 'A site is due for its next run this long after its last progress.';
comment on column sites.started_at is 'When the present run, or the last one, began.';
comment on column sites.status is 'Older system''s; kept until the clean-up.';
comment on column sites.subdomain is 'The key, everywhere: in URLs, in storage paths, in job arguments.';
comment on column sites.updated_at is 'Last progress, truncated to the second so that counter updates stay heap-only.';
comment on column stage_durations.job_median is 'Duration of a job from its last claim to its end. Likewise job_p90.';
comment on column stage_durations.median is 'From the start of the phase to its end; compilation and extraction are one phase. Likewise p90, longest.';
comment on column stage_durations.wait_median is 'Time from when a job was due until it was claimed. Likewise wait_p90.';
comment on column stage_policy.lease is 'How long a claim holds without a sign of life; workers renew at a third of it.';
comment on column stage_policy.time_limit is 'After this long a job''s claim is no longer renewed and the job is aborted.';
comment on column storage_scans.attempted_at is 'Start of the last scan, whatever its result. The site scanned longest ago is next.';
comment on column storage_scans.clean_at is 'Start of the last scan without findings; files changed since then are checked again. NULL: there was none.';
comment on column storage_scans.full_scan_at is 'Start of the last scan that compared the hash of every file.';
comment on column worker_processes.holder is 'application_name, as in job_claims: a unique part, "clerk", process id, host.';
comment on column worker_processes.queues is 'NULL: every queue.';
comment on column worker_status.alive is 'Its heartbeat is younger than a minute. The row of a dead worker stays until Procrastinate prunes it.';
comment on column worker_status.doing is 'Queue, site and progress of each running job.';
comment on column worker_status.queues is 'NULL: every queue, or a worker that is not part of clerk.';
comment on table clerk_migrations is 'Applied files of sql/migrations. The migrator refuses a file whose checksum differs from the one here.';
comment on table clerk_procrastinate is 'Applied files of Procrastinate''s own schema. The newest complete version is the installed one.';
comment on table clerk_schema_objects is 'Functions, triggers and views as last applied: checksum of the file, and of the definition in the database.';
comment on table content_item_pipeline_state is 'The ledger: one row per content item and stage. Open: pending, in_progress, failed_retryable. Terminal: processed, failed_terminal.';
comment on table content_items is 'A thing that stages work on: a document (minutes or agenda), or the site''s own archive item.';
comment on table fetch_hosts is 'A row per host that we fetch from: when it may be asked next, by any worker.';
comment on table fetch_slots is 'A row per request that is under way. One whose worker died counts until its lease is over.';
comment on table ignored_results is 'Results that changed nothing. fenced: another claim held the job. stale: the run was over, or the unit had moved on.';
comment on table job_claims is 'Who holds a running job, at which attempt and until when. Only this claim may settle the job.';
comment on table legacy_schema is 'The legacy clerk''s sites table as the first migration found it; restored by going down to 0. Empty if there was none.';
comment on table legacy_sites is 'A legacy site as it was when its first run here began; restored by going down to 0, unless it finished here.';
comment on table legacy_values is 'Values of the legacy clerk that the checks on sites refuse (no counter, a negative one, an unknown stage), as found.';
comment on table operator_actions is 'Every operator action that changed something, written in the transaction of the change.';
comment on table paused_queues is 'Queues whose jobs are on hold, and who paused them.';
comment on table pipeline_runs is 'One row per run: when, why, how it ended, and the counters of the site at its end.';
comment on table pipeline_transitions is 'When the coordinator of each phase was claimed, how often it was deferred, and when it advanced the run. History: sites says which phase is current.';
comment on table publication_steps is 'What of a publication is done, by deployer or plugin: a retry goes on with the rest.';
comment on table publications is 'One row per archive that was published: at most one per run and content.';
comment on table reconcile_log is 'Every repair: what was found, what was done and why, with the rows before and after.';
comment on table reconcile_runs is 'One row per reconciliation. Dry runs, and runs that found another in progress, have none.';
comment on table sites is 'One row per municipality: who it is, where its present run stands, how the last one ended.';
comment on table stage_policy is 'How each stage is run. Operators may change numbers here; workers and repairs read them.';
comment on table storage_scans is 'When reconciliation last compared a site''s files with its rows. No row: never.';
comment on table worker_processes is 'Which process a worker of Procrastinate is: its name in claims, and what it reads.';
comment on view claim_mismatches is 'Claims that contradict their job, or whose job does not exist (invariant I8). Reads every claim unless filtered by job_id.';
comment on view completions_per_hour is 'Per hour and stage: units of the runs that ended in that hour, for the last seven days. Hours in which no run ended are absent.';
comment on view coordinator_errors is 'The last failure of each coordinator, by run and phase.';
comment on view counter_mismatches is 'Sites and stages whose counters differ from the ledger (invariant I2), or whose coordinator is claimed too early (I3). Counts the ledger of every site that is not filtered out.';
comment on view current_runs is 'One row per site: its current run, or its last one, with why it started and how it ended.';
comment on view due_sites is 'Sites that the scheduler will start, the one that has waited longest first.';
comment on view duplicate_publications is 'Sites whose newest publication repeated the content that a deployer already had (invariant I5), although no copy had been lost.';
comment on view expected_counters is 'The counters that a site should have, counted from the ledger rows of its current run.';
comment on view expired_claims is 'Running jobs without a live lease (invariant I7): their worker died, froze or exceeded the time limit.';
comment on view failing_documents is 'Units whose last attempt failed, permanently or to be retried, and why.';
comment on view invariant_violations is 'One row per violated invariant that SQL can see among active and recent rows; normally empty.';
comment on view invariant_violations_full is 'Like invariant_violations, over all rows. Reads the whole ledger: for nightly checks and after a restore.';
comment on view jobs_last_minute is 'Per stage: jobs that ended in the last minute.';
comment on view missing_coordinators is 'Phases that are complete and not advanced, without a waiting or running coordinator.';
comment on view missing_refreshes is 'Dirty sites without an active run and without a waiting refresh job.';
comment on view open_coordinators is 'Complete phases that have not been advanced: where the coordinator waits or runs.';
comment on view open_units is 'Open units and late units: where the job of each waits or runs, and which worker holds it.';
comment on view orphaned_units is 'Open units of active runs, and late units, whose job is neither waiting nor running.';
comment on view pipeline_health is 'One row: number of sites by state, stuck sites, and failure rate of each stage.';
comment on view pipeline_overview is 'One row per site: stage, progress, rate, ETA, whether it is stuck, counters, outcome and last error.';
comment on view queue_backlog is 'Per queue that has jobs or is paused: waiting, scheduled, on-hold and running jobs, rate and ETA.';
comment on view queue_pauses is 'Paused queues, since when and by whom.';
comment on view recent_actions is 'Operator actions of the last thirty days, newest first.';
comment on view recent_errors is 'Failures of the last seven days that have not succeeded since, newest first.';
comment on view recent_events is 'Events of the last seven days, newest first: active runs that started, runs that ended, repairs, operator actions.';
comment on view recent_ignored_results is 'Results of the last seven days that were rejected or ignored, newest first.';
comment on view recent_reconciliations is 'Reconciliations of the last seven days, newest first.';
comment on view recent_repairs is 'Repairs of the last seven days, newest first.';
comment on view run_history is 'One row per run: when, why, how long, how it ended. Filter by subdomain.';
comment on view run_mismatches is 'Runs on whose state the rows disagree: open units of an ended run (I1); a site whose stage or outcome is not that of its run, or an open run that is not the current run of its site (I4).';
comment on view running_jobs is 'One row per running job: machine, start time, progress.';
comment on view site_documents is 'One row per document: source, state of each stage, errors. Filter by subdomain.';
comment on view site_publications is 'One row per published version of an archive: when, how many pages, whether it was rolled back.';
comment on view site_sources is 'One row per site: its description and the source of its documents.';
comment on view stage_durations is 'Per stage: how long sites take for it (runs that ended in the last day), and how long its jobs run and wait (last hour).';
comment on view stale_jobs is 'Waiting jobs of runs that have ended: their results would be stale.';
comment on view stuck_sites is 'Sites with an active run, not paused, without progress for two hours and without a live lease.';
comment on view throttled_hosts is 'Hosts of a site''s documents to which no request may start now: backed off, or at their rate limit.';
comment on view trigger_problems is 'Accounting triggers that are missing or disabled; normally empty.';
comment on view waiting_jobs is 'Waiting jobs: for a worker, for their scheduled time (later) or for the end of a pause (paused).';
comment on view worker_status is 'One row per registered worker: host, queues, running jobs, whether it is alive.';
comment on view wrongly_paused_jobs is 'Paused jobs of which neither queue nor site is paused any more.';

-- section: grants
grant delete, insert, select, update on claim_mismatches to clerk_worker;
grant delete, insert, select, update on completions_per_hour to clerk_worker;
grant delete, insert, select, update on content_item_pipeline_state to clerk_worker;
grant delete, insert, select, update on content_items to clerk_worker;
grant delete, insert, select, update on coordinator_errors to clerk_worker;
grant delete, insert, select, update on counter_mismatches to clerk_worker;
grant delete, insert, select, update on current_runs to clerk_worker;
grant delete, insert, select, update on due_sites to clerk_worker;
grant delete, insert, select, update on duplicate_publications to clerk_worker;
grant delete, insert, select, update on expected_counters to clerk_worker;
grant delete, insert, select, update on expired_claims to clerk_worker;
grant delete, insert, select, update on failing_documents to clerk_worker;
grant delete, insert, select, update on fetch_hosts to clerk_worker;
grant delete, insert, select, update on fetch_slots to clerk_worker;
grant delete, insert, select, update on ignored_results to clerk_worker;
grant delete, insert, select, update on invariant_violations to clerk_worker;
grant delete, insert, select, update on invariant_violations_full to clerk_worker;
grant delete, insert, select, update on job_claims to clerk_worker;
grant delete, insert, select, update on jobs_last_minute to clerk_worker;
grant delete, insert, select, update on missing_coordinators to clerk_worker;
grant delete, insert, select, update on missing_refreshes to clerk_worker;
grant delete, insert, select, update on open_coordinators to clerk_worker;
grant delete, insert, select, update on open_units to clerk_worker;
grant delete, insert, select, update on operator_actions to clerk_worker;
grant delete, insert, select, update on orphaned_units to clerk_worker;
grant delete, insert, select, update on paused_queues to clerk_worker;
grant delete, insert, select, update on pipeline_health to clerk_worker;
grant delete, insert, select, update on pipeline_overview to clerk_worker;
grant delete, insert, select, update on pipeline_runs to clerk_worker;
grant delete, insert, select, update on pipeline_transitions to clerk_worker;
grant delete, insert, select, update on procrastinate_events to clerk_worker;
grant delete, insert, select, update on procrastinate_jobs to clerk_worker;
grant delete, insert, select, update on procrastinate_periodic_defers to clerk_worker;
grant delete, insert, select, update on procrastinate_workers to clerk_worker;
grant delete, insert, select, update on publication_steps to clerk_worker;
grant delete, insert, select, update on publications to clerk_worker;
grant delete, insert, select, update on queue_backlog to clerk_worker;
grant delete, insert, select, update on queue_pauses to clerk_worker;
grant delete, insert, select, update on recent_actions to clerk_worker;
grant delete, insert, select, update on recent_errors to clerk_worker;
grant delete, insert, select, update on recent_events to clerk_worker;
grant delete, insert, select, update on recent_ignored_results to clerk_worker;
grant delete, insert, select, update on recent_reconciliations to clerk_worker;
grant delete, insert, select, update on recent_repairs to clerk_worker;
grant delete, insert, select, update on reconcile_log to clerk_worker;
grant delete, insert, select, update on reconcile_runs to clerk_worker;
grant delete, insert, select, update on run_history to clerk_worker;
grant delete, insert, select, update on run_mismatches to clerk_worker;
grant delete, insert, select, update on running_jobs to clerk_worker;
grant delete, insert, select, update on site_documents to clerk_worker;
grant delete, insert, select, update on site_publications to clerk_worker;
grant delete, insert, select, update on site_sources to clerk_worker;
grant delete, insert, select, update on sites to clerk_worker;
grant delete, insert, select, update on stage_durations to clerk_worker;
grant delete, insert, select, update on stage_policy to clerk_worker;
grant delete, insert, select, update on stale_jobs to clerk_worker;
grant delete, insert, select, update on storage_scans to clerk_worker;
grant delete, insert, select, update on stuck_sites to clerk_worker;
grant delete, insert, select, update on throttled_hosts to clerk_worker;
grant delete, insert, select, update on trigger_problems to clerk_worker;
grant delete, insert, select, update on waiting_jobs to clerk_worker;
grant delete, insert, select, update on worker_processes to clerk_worker;
grant delete, insert, select, update on worker_status to clerk_worker;
grant delete, insert, select, update on wrongly_paused_jobs to clerk_worker;
grant insert, select on legacy_sites to clerk_worker;
grant select on claim_mismatches to clerk_dashboard;
grant select on clerk_migrations to clerk_worker;
grant select on clerk_procrastinate to clerk_worker;
grant select on clerk_schema_objects to clerk_worker;
grant select on completions_per_hour to clerk_dashboard;
grant select on coordinator_errors to clerk_dashboard;
grant select on counter_mismatches to clerk_dashboard;
grant select on current_runs to clerk_dashboard;
grant select on due_sites to clerk_dashboard;
grant select on duplicate_publications to clerk_dashboard;
grant select on expected_counters to clerk_dashboard;
grant select on expired_claims to clerk_dashboard;
grant select on failing_documents to clerk_dashboard;
grant select on invariant_violations to clerk_dashboard;
grant select on invariant_violations_full to clerk_dashboard;
grant select on jobs_last_minute to clerk_dashboard;
grant select on legacy_schema to clerk_worker;
grant select on legacy_values to clerk_worker;
grant select on missing_coordinators to clerk_dashboard;
grant select on missing_refreshes to clerk_dashboard;
grant select on open_coordinators to clerk_dashboard;
grant select on open_units to clerk_dashboard;
grant select on orphaned_units to clerk_dashboard;
grant select on pipeline_health to clerk_dashboard;
grant select on pipeline_overview to clerk_dashboard;
grant select on queue_backlog to clerk_dashboard;
grant select on queue_pauses to clerk_dashboard;
grant select on recent_actions to clerk_dashboard;
grant select on recent_errors to clerk_dashboard;
grant select on recent_events to clerk_dashboard;
grant select on recent_ignored_results to clerk_dashboard;
grant select on recent_reconciliations to clerk_dashboard;
grant select on recent_repairs to clerk_dashboard;
grant select on run_history to clerk_dashboard;
grant select on run_mismatches to clerk_dashboard;
grant select on running_jobs to clerk_dashboard;
grant select on site_documents to clerk_dashboard;
grant select on site_publications to clerk_dashboard;
grant select on site_sources to clerk_dashboard;
grant select on stage_durations to clerk_dashboard;
grant select on stale_jobs to clerk_dashboard;
grant select on stuck_sites to clerk_dashboard;
grant select on throttled_hosts to clerk_dashboard;
grant select on trigger_problems to clerk_dashboard;
grant select on waiting_jobs to clerk_dashboard;
grant select on worker_status to clerk_dashboard;
grant select on wrongly_paused_jobs to clerk_dashboard;
grant usage on procrastinate_events_id_seq to clerk_worker;
grant usage on procrastinate_jobs_id_seq to clerk_worker;
grant usage on procrastinate_periodic_defers_id_seq to clerk_worker;
grant usage on procrastinate_workers_id_seq to clerk_worker;
