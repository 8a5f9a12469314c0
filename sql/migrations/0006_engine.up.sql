-- What the state machine needs beside the ledger: policy per stage, pauses, late and ignored results.

create table stage_policy (
    stage text primary key,
    phase smallint not null,
    task_name text not null,
    max_attempts integer not null,
    lease interval not null,
    time_limit interval not null,
    constraint stage_policy_stage_check check (stage in ('fetch', 'ocr', 'compilation', 'extraction', 'deploy')),
    constraint stage_policy_phase_check check (phase between 1 and 4),
    constraint stage_policy_max_attempts_check check (max_attempts >= 1),
    constraint stage_policy_lease_check check (lease >= interval '1 second'),
    constraint stage_policy_time_limit_check check (time_limit >= lease)
);

insert into stage_policy (stage, phase, task_name, max_attempts, lease, time_limit) values
    ('fetch', 1, 'clerk.fetch', 5, '2 minutes', '2 hours'),
    ('ocr', 2, 'clerk.ocr', 3, '2 minutes', '4 hours'),
    ('compilation', 3, 'clerk.compilation', 5, '2 minutes', '1 hour'),
    ('extraction', 3, 'clerk.extraction', 3, '2 minutes', '30 minutes'),
    ('deploy', 4, 'clerk.deploy', 8, '2 minutes', '1 hour');

comment on table stage_policy is
    'How each stage is run. Operators may change numbers here; workers and repairs read them.';
comment on column stage_policy.lease is 'How long a claim holds without a sign of life; workers renew at a third of it.';
comment on column stage_policy.time_limit is 'After this long a job''s claim is no longer renewed and the job is aborted.';

alter table sites
    add column dirty boolean not null default false,
    add column cadence interval not null default interval '23 hours',
    add column paused_at timestamptz,
    add column paused_by text;

comment on column sites.dirty is 'A document was healed after its phase: the archive wants a run from phase 3.';
comment on column sites.cadence is 'A site is due for its next run this long after its last progress.';
comment on column sites.paused_at is 'Since when the site''s jobs are held back; NULL when they are not.';
comment on column sites.paused_by is 'Who paused it and why, for a person.';

create table paused_queues (
    queue_name text primary key,
    paused_at timestamptz not null default now(),
    paused_by text not null
);
comment on table paused_queues is 'Queues whose jobs are held back, and who said so.';

alter table content_item_pipeline_state add column reopened_at timestamptz;
comment on column content_item_pipeline_state.reopened_at is
    'An operator retried the failed unit after its phase: if it succeeds the books are put right and the site is dirty.';

alter table job_claims
    add column settled_as text,
    add column settled_at timestamptz,
    add column settled_by text;
comment on column job_claims.settled_by is 'Its holder, or the repair or operator''s move that took the job away.';
comment on column job_claims.settled_as is
    'How this claim ended: the status that the job went to. A worker whose answer got lost recognises its own result by it.';

create table ignored_results (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    why text not null,
    job_id bigint not null,
    status text not null,
    holder text not null,
    attempt integer,
    subdomain text,
    run_id bigint,
    stage text,
    content_item_id bigint,
    constraint ignored_results_why_check check (why in ('fenced', 'stale'))
);
create index idx_ignored_results_at on ignored_results (at);
comment on table ignored_results is
    'Results that changed nothing. fenced: another claim held the job. stale: the run was over, or the unit had moved on.';

-- The first waiting job of a queue, for clerk_fetch_job.
create index idx_procrastinate_jobs_queue_todo on procrastinate_jobs (queue_name, priority desc, id)
    where status = 'todo';
