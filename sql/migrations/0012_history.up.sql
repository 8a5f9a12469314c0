-- What people did, and every reconciliation, whatever it found.

create table operator_actions (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    actor text not null default coalesce(nullif(current_setting('clerk.operator', true), ''), session_user),
    via text not null default coalesce(nullif(current_setting('clerk.via', true), ''), 'sql'),
    action text not null,
    subdomain varchar,
    run_id bigint,
    detail jsonb not null default '{}'
);

create index idx_operator_actions_at on operator_actions (at);

comment on table operator_actions is
    'Every operator''s move that changed something, written in its own transaction by whatever made it.';
comment on column operator_actions.actor is
    'The setting clerk.operator, which commands and dashboard set to the person; otherwise the database user.';
comment on column operator_actions.via is 'The setting clerk.via: cli, dashboard, …; sql where nobody set it.';
comment on column operator_actions.action is
    'retry, cancel, pause, resume, rewind, supersede, rollback, reconcile, clean up, undo clean-up.';
comment on column operator_actions.subdomain is 'No foreign key: the history outlives the site.';
comment on column operator_actions.run_id is 'The run that was started, changed or ended.';

create table reconcile_passes (
    reconciliation uuid primary key,
    started_at timestamptz not null default now(),
    ended_at timestamptz,
    actor text not null default coalesce(nullif(current_setting('clerk.operator', true), ''), session_user),
    via text not null default coalesce(nullif(current_setting('clerk.via', true), ''), 'sql'),
    subdomain varchar,
    found integer not null default 0,
    repaired integer not null default 0,
    failed integer not null default 0,
    given_up integer not null default 0
);

create index idx_reconcile_passes_started_at on reconcile_passes (started_at);

comment on table reconcile_passes is 'Every reconciliation but dry runs, and those that found another at work.';
comment on column reconcile_passes.reconciliation is 'As in reconcile_log, which has its repairs.';
comment on column reconcile_passes.ended_at is 'NULL: it is going on, or was cut short.';
comment on column reconcile_passes.via is 'worker, cli, dashboard, …';
comment on column reconcile_passes.subdomain is 'NULL: all sites were looked at.';
comment on column reconcile_passes.found is 'What was planned; what had healed by itself meanwhile is counted nowhere else.';
comment on column reconcile_passes.given_up is 'Runs that were ended because the same repair had led nowhere three times.';
