-- What fetching has to remember: where a document stands in its history at the source, why it could not be had,
-- and when which host may be asked again.

alter table content_items
    add column source_key text,
    add column source_version text,
    add column series bigint,
    add column superseded_at timestamptz,
    add column vanished_at timestamptz,
    add column checked_at timestamptz,
    add column fetched_at timestamptz,
    add column fetch_error_code text,
    add column fetch_error_message text,
    add column fetch_failed_at timestamptz;

-- What was known by its address before is found by it again.
update content_items i
set source_key = i.source_url
where i.source_url is not null
  and not exists (select from content_items newer
                  where newer.subdomain = i.subdomain and newer.source_url = i.source_url and newer.id > i.id);

create unique index uix_content_items_source_key on content_items (subdomain, source_key)
    where source_key is not null and superseded_at is null;

comment on column content_items.source_key is
    'What stays the same at the source when the document is revised: the vendor''s id, or the address.';
comment on column content_items.source_version is
    'The source''s own word for this content, such as a publication time; the same word means no request.';
comment on column content_items.series is
    'Id of the first content item of this document''s history (NULL: itself); revisions and moves to another day share it.';
comment on column content_items.superseded_at is
    'Since when a later revision is known. The archive shows the newest of a series that could be read.';
comment on column content_items.vanished_at is
    'Since when the source no longer lists it. It stays in the archive: that is what an archive is for.';
comment on column content_items.checked_at is 'When the source last confirmed this content.';
comment on column content_items.fetched_at is 'When this content arrived; later than the ledger''s word on it means: read it again.';
comment on column content_items.fetch_error_code is 'Why the last try to get it failed; NULL when it did not.';
comment on column content_items.fetch_failed_at is 'When a failure that counts happened: a new one, or one that may pass.';

create table fetch_hosts (
    host text primary key,
    next_at timestamptz not null,
    held_until timestamptz,
    held_why text
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
comment on table fetch_hosts is 'A row per host that we fetch from: when it may be asked next, by any worker.';
comment on column fetch_hosts.held_until is 'The host asked to be left alone until then (Retry-After).';

create table fetch_slots (
    id bigint generated always as identity primary key,
    host text not null references fetch_hosts (host) on delete cascade,
    holder text not null default current_setting('application_name'),
    lease_until timestamptz not null
);
create index idx_fetch_slots_host on fetch_slots (host);
comment on table fetch_slots is
    'A row per request that is under way. One whose worker died counts until its lease is over.';
