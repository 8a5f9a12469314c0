-- Tables of the migrator. It creates them before the first migration and drops them after reverting the last one.
-- Every statement can be repeated.

create table if not exists clerk_migrations (
    version integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now(),
    applied_by text not null default current_user,
    milliseconds integer not null
);
comment on table clerk_migrations is
    'Applied files of sql/migrations. The migrator refuses a file whose checksum differs from the one here.';

create table if not exists clerk_schema_objects (
    kind text not null check (kind in ('function', 'trigger', 'view')),
    name text not null,
    needs integer not null,
    checksum text not null,
    live_checksum text not null,
    applied_at timestamptz not null default now(),
    primary key (kind, name)
);
comment on table clerk_schema_objects is
    'Functions, triggers and views as last applied: checksum of the file, and of the definition in the database.';

create table if not exists clerk_procrastinate (
    file text primary key,
    version text not null,
    complete boolean not null,
    functions jsonb not null,
    applied_at timestamptz not null default now()
);
comment on table clerk_procrastinate is
    'Applied files of Procrastinate''s own schema. The newest complete version is the installed one.';
comment on column clerk_procrastinate.complete is
    'False for a single migration file of an upgrade. An interrupted upgrade continues after these.';
comment on column clerk_procrastinate.functions is
    'Checksum of each installed function, by which verify detects manual changes.';
