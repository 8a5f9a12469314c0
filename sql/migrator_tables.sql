-- What the migrator remembers. Made by the migrator itself before its first migration, and dropped after the
-- last one has been taken back. Every statement can be repeated.

create table if not exists clerk_migrations (
    version integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now(),
    applied_by text not null default current_user,
    milliseconds integer not null
);
comment on table clerk_migrations is
    'Which files of sql/migrations have been applied; a file whose checksum differs from the one here is refused.';

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
    'Functions, triggers and views as last applied: checksum of the file, and of what the database made of it.';

create table if not exists clerk_procrastinate (
    file text primary key,
    version text not null,
    complete boolean not null,
    functions jsonb not null,
    applied_at timestamptz not null default now()
);
comment on table clerk_procrastinate is
    'Files of Procrastinate''s own schema as applied here; the newest complete version is the present one.';
comment on column clerk_procrastinate.complete is
    'False for a single migration file of an upgrade: should the upgrade be cut short, it goes on after these.';
comment on column clerk_procrastinate.functions is
    'Checksum of each of its functions as installed, so that verify notices one that was changed by hand.';
