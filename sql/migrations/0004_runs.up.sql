-- Runs and their phases, claims on jobs, and the log of repairs.

create table pipeline_runs (
    run_id bigint generated always as identity primary key,
    subdomain varchar not null references sites (subdomain) on update cascade on delete cascade,
    reason text not null,
    started_at timestamptz not null default now(),
    ended_at timestamptz,
    outcome text,
    outcome_reason text,
    fetch_total integer, fetch_completed integer, fetch_failed integer,
    ocr_total integer, ocr_completed integer, ocr_failed integer,
    compilation_total integer, compilation_completed integer, compilation_failed integer,
    extraction_total integer, extraction_completed integer, extraction_failed integer,
    deploy_total integer, deploy_completed integer, deploy_failed integer,
    constraint pipeline_runs_outcome_check
        check (outcome in ('succeeded', 'partial', 'failed', 'unchanged', 'no_documents', 'cancelled')),
    constraint pipeline_runs_ended_check check ((ended_at is null) = (outcome is null))
);

create index idx_pipeline_runs_subdomain on pipeline_runs (subdomain, started_at desc);
create index idx_pipeline_runs_going on pipeline_runs (started_at) where ended_at is null;
create index idx_pipeline_runs_ended on pipeline_runs (ended_at) where ended_at is not null;

comment on table pipeline_runs is
    'One row per run: when, why, how it ended, and the counters of the site at its end.';
comment on column pipeline_runs.run_id is 'The fencing token: it only grows, so a job of an older run is recognised.';
comment on column pipeline_runs.reason is 'Why the run was started, for a person: "scheduled", "late documents healed", …';

create table pipeline_transitions (
    run_id bigint not null references pipeline_runs (run_id) on delete cascade,
    phase smallint not null,
    claimed_at timestamptz not null default now(),
    deferred_count integer not null default 1,
    last_deferred_at timestamptz not null default now(),
    coordinator_job_id bigint,
    advanced_at timestamptz,
    primary key (run_id, phase),
    constraint pipeline_transitions_phase_check check (phase between 1 and 4),
    constraint pipeline_transitions_deferred_count_check check (deferred_count >= 1)
);

create index idx_pipeline_transitions_waiting on pipeline_transitions (claimed_at) where advanced_at is null;

comment on table pipeline_transitions is
    'The exactly-once proof: one row when a phase is complete and its coordinator is claimed, advanced once.';
comment on column pipeline_transitions.deferred_count is
    'How often the coordinator was deferred: more than once when a lost one was replaced.';
comment on column pipeline_transitions.advanced_at is 'When the one accepted advance out of this phase happened.';

create table job_claims (
    job_id bigint primary key,
    holder text not null,
    attempt integer not null,
    claimed_at timestamptz not null default now(),
    lease_until timestamptz not null,
    progress integer not null default 0,
    progress_total integer,
    progress_at timestamptz,
    constraint job_claims_progress_check check (progress >= 0)
)
-- Every long job renews its lease here many times a minute; lease_until must never be indexed.
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);

comment on table job_claims is
    'Who holds a running job, at which attempt and until when. Only this claim may settle the job.';
comment on column job_claims.holder is 'application_name of the worker process, unique per process.';
comment on column job_claims.progress is 'Steps done, such as pages read, of progress_total.';

create table reconcile_log (
    id bigint generated always as identity primary key,
    reconciliation uuid not null,
    at timestamptz not null default now(),
    actor text not null default current_user,
    subdomain varchar,
    run_id bigint,
    stage text,
    found text not null,
    done text not null,
    why text not null,
    before jsonb,
    after jsonb
);

create index idx_reconcile_log_at on reconcile_log (at);
create index idx_reconcile_log_subdomain on reconcile_log (subdomain, at desc);

comment on table reconcile_log is 'Every repair: what was found, what was done and why, with the rows before and after.';
comment on column reconcile_log.reconciliation is 'Repairs of one pass share this.';
comment on column reconcile_log.subdomain is 'No foreign key: the log outlives the site.';
