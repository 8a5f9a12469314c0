-- The things that stages work on: documents, and one archive item per site for the site-level stages.

create table content_items (
    id bigint generated always as identity primary key,
    subdomain varchar not null references sites (subdomain) on update cascade on delete cascade,
    kind text not null,
    meeting text,
    date date,
    occurrence smallint not null default 1,
    revision smallint not null default 1,
    source_url text,
    etag text,
    last_modified text,
    sha256 text,
    size_bytes bigint,
    page_count integer,
    storage_key text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint content_items_kind_check check (kind in ('minutes', 'agenda', 'archive')),
    constraint content_items_document_check
        check (kind = 'archive' or (meeting is not null and meeting <> '' and date is not null)),
    constraint content_items_occurrence_check check (occurrence >= 1),
    constraint content_items_revision_check check (revision >= 1),
    constraint content_items_sha256_check check (sha256 ~ '^[0-9a-f]{64}$'),
    constraint content_items_size_bytes_check check (size_bytes >= 0),
    constraint content_items_page_count_check check (page_count >= 0)
);

create unique index uix_content_items_document
    on content_items (subdomain, kind, meeting, date, occurrence, revision) where kind <> 'archive';
create unique index uix_content_items_archive on content_items (subdomain) where kind = 'archive';
create unique index uix_content_items_storage_key on content_items (subdomain, storage_key);
create index idx_content_items_source_url on content_items (subdomain, source_url);

comment on table content_items is
    'A thing that stages work on: a document (minutes or agenda), or the site''s own archive item.';
comment on column content_items.meeting is 'The body that met, as named by the source.';
comment on column content_items.occurrence is
    'The body''s first, second, … meeting of that day, so that a second one never hides the first.';
comment on column content_items.revision is
    'The first, second, … PDF published for that meeting: a revised one is a new row, and the older stays known.';
comment on column content_items.last_modified is 'As the server sent it: it is given back word for word.';
comment on column content_items.storage_key is 'Path of the PDF below the site''s folder.';
