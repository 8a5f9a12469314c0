-- What was published, and how far each publication has come.

create table publications (
    id bigint generated always as identity primary key,
    subdomain varchar not null references sites (subdomain) on update cascade on delete cascade,
    run_id bigint not null references pipeline_runs (run_id) on delete cascade,
    content_hash text not null,
    pages integer not null,
    begun_at timestamptz not null default now(),
    deployed_at timestamptz,
    announced_at timestamptz,
    withdrawn_at timestamptz,
    withdrawn_by text,
    constraint publications_content_hash_check check (content_hash ~ '^[0-9a-f]{64}$'),
    constraint publications_pages_check check (pages >= 0),
    constraint publications_announced_check check (announced_at is null or deployed_at is not null)
);
create unique index uix_publications_run_content on publications (run_id, content_hash);
create index idx_publications_subdomain on publications (subdomain, id desc);

comment on table publications is 'One row per archive that was published: at most one per run and content.';
comment on column publications.content_hash is 'Of the whole database; docs/archive.md says how it is made.';
comment on column publications.deployed_at is 'When the last of the site''s deployers was done.';
comment on column publications.announced_at is 'When every post_deploy hook was done.';
comment on column publications.withdrawn_at is
    'When an operator rolled it back: the same content is not published again on its own.';

create table publication_steps (
    publication_id bigint not null references publications (id) on delete cascade,
    step text not null,
    name text not null,
    done_at timestamptz not null default now(),
    result text,
    primary key (publication_id, step, name),
    constraint publication_steps_step_check check (step in ('deploy', 'post_deploy'))
);

comment on table publication_steps is
    'What of a publication is done, by deployer or plugin: a retry goes on with the rest.';
comment on column publication_steps.result is 'What the deployer said, such as where it put the archive.';
