-- Further kinds of documents, where the details of a document come from, and every entry of a source that was skipped.

alter table content_items drop constraint content_items_kind_check;
alter table content_items add constraint content_items_kind_check
    check (kind in ('minutes', 'agenda', 'packet', 'ordinance', 'resolution', 'report', 'notice', 'archive'));
comment on table content_items is
    'A thing that stages work on: a document (minutes, agenda or a further kind), or the site''s own archive item.';

alter table content_items
    add column date_origin text,
    add column meeting_origin text,
    add column kind_origin text;
alter table content_items
    add constraint content_items_date_origin_check
        check (date_origin in ('source', 'name', 'text', 'metadata', 'created', 'modified', 'operator')),
    add constraint content_items_meeting_origin_check
        check (meeting_origin in ('source', 'folder', 'name', 'text', 'default', 'operator')),
    add constraint content_items_kind_origin_check
        check (kind_origin in ('source', 'folder', 'name', 'text', 'default', 'operator'));
comment on column content_items.date_origin is
    'Where the date comes from: source (its listing), name (of the file), text (of the first page), metadata (title of the '
    'PDF), created (creation of the PDF) or modified (modification of the file), both on request only, operator. NULL: unknown.';
comment on column content_items.meeting_origin is
    'Where the meeting''s name comes from: source, folder, name, text, default (of the site) or operator. NULL: unknown.';
comment on column content_items.kind_origin is
    'Where the kind comes from: source, folder, name, text, default (minutes) or operator. NULL: unknown.';

create table skipped_entries (
    id bigint generated always as identity primary key,
    subdomain varchar not null references sites (subdomain) on update cascade on delete cascade,
    source_key text not null,
    name text not null,
    source_url text,
    reason_code text not null,
    reason text not null,
    run_id bigint,
    skipped_since timestamptz not null default now(),
    source_version text,
    etag text,
    last_modified text,
    detection integer
);
create index idx_skipped_entries_subdomain on skipped_entries (subdomain, source_key);
comment on table skipped_entries is
    'Entries that the last complete listing of a site''s source has, and that did not become documents.';
comment on column skipped_entries.name is 'Path of the file in its folder, or its address; what `clerk site date` takes.';
comment on column skipped_entries.detection is
    'Version of the rules that found no date in the PDF with this source_version, etag or last_modified. NULL: not read.';

create table document_details (
    subdomain varchar not null references sites (subdomain) on update cascade on delete cascade,
    source_key text not null,
    name text not null,
    date date,
    meeting text,
    kind text,
    ignored boolean not null default false,
    set_by text not null default session_user,
    set_at timestamptz not null default now(),
    primary key (subdomain, source_key),
    constraint document_details_kind_check
        check (kind in ('minutes', 'agenda', 'packet', 'ordinance', 'resolution', 'report', 'notice'))
);
comment on table document_details is
    'What operators said about entries of a source: date, meeting and kind, which the next fetch uses, or that the entry '
    'is ignored.';

comment on column pipeline_runs.skipped is
    'Entries of the source that this run''s fetch skipped, without those that an operator ignores.';
