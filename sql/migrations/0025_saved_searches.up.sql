-- Saved searches (`clerk alert`): queries that are matched with the new pages of every publication, and whose matches
-- are delivered by mail, webhook or feed.

create table saved_searches (
    id bigint generated always as identity primary key,
    name text not null,
    query text not null,
    sites text[],
    created_at timestamptz not null default now(),
    created_by text not null,
    paused_at timestamptz,
    paused_by text,
    query_error text,
    query_error_at timestamptz,
    constraint saved_searches_name_check check (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    constraint saved_searches_query_check check (query <> '' and length(query) <= 1000),
    constraint saved_searches_sites_check check (sites <> '{}')
);
create unique index uix_saved_searches_name on saved_searches (name);

comment on table saved_searches is
    'Queries that are matched with the new pages of every publication: `clerk alert`. Not the alerts of monitoring.';
comment on column saved_searches.sites is 'Only these sites; NULL for all.';
comment on column saved_searches.paused_at is
    'Since when matches are recorded but not delivered: resuming delivers them.';

comment on column saved_searches.query_error is
    'Why the query could not be matched with the last publication: this version of clerk does not understand it.';

create table saved_search_destinations (
    id bigint generated always as identity primary key,
    saved_search_id bigint not null references saved_searches (id) on delete cascade,
    channel text not null,
    address text not null default '',
    frequency text not null default 'immediate',
    secret text,
    delivered_to_match bigint not null default 0,
    next_digest_at timestamptz,
    constraint saved_search_destinations_channel_check check (channel in ('mail', 'webhook', 'feed')),
    constraint saved_search_destinations_address_check check ((address = '') = (channel = 'feed') and address !~ '[[:cntrl:]]'),
    constraint saved_search_destinations_frequency_check check (
        frequency in ('immediate', 'daily', 'weekly') and (channel = 'mail' or frequency = 'immediate')
        and (frequency = 'immediate') = (next_digest_at is null)),
    constraint saved_search_destinations_secret_check check ((secret is not null) = (channel = 'webhook'))
);
create unique index uix_saved_search_destinations_address
    on saved_search_destinations (saved_search_id, channel, address);
create index idx_saved_search_destinations_digest on saved_search_destinations (next_digest_at)
    where next_digest_at is not null;

comment on table saved_search_destinations is 'Where the matches of a saved search are delivered. No view shows address and secret in full.';
comment on column saved_search_destinations.secret is 'Key of the webhook''s signature. Shown once, when the saved search is added.';
comment on column saved_search_destinations.delivered_to_match is
    'Matches up to this id belong to a delivery, whatever its status.';
comment on column saved_search_destinations.next_digest_at is 'When the next digest is due; NULL if delivery is immediate.';

create table saved_search_matches (
    id bigint generated always as identity primary key,
    saved_search_id bigint not null references saved_searches (id) on delete cascade,
    subdomain varchar not null,
    page_id text not null,
    publication_id bigint references publications (id) on delete set null,
    kind text not null,
    meeting text not null,
    date text not null,
    page integer not null,
    is_new_document boolean not null,
    snippet text not null,
    content_item_id bigint,
    source_url text,
    matched_at timestamptz not null
);
create unique index uix_saved_search_matches_page on saved_search_matches (saved_search_id, subdomain, page_id);
create index idx_saved_search_matches_search on saved_search_matches (saved_search_id, id);
create index idx_saved_search_matches_publication on saved_search_matches (publication_id);
create index idx_saved_search_matches_matched_at on saved_search_matches (matched_at);

comment on table saved_search_matches is
    'One row per saved search and page: the page is delivered once, also after retries, rollbacks and a removed site. '
    'Rows of one saved search are inserted under a lock of its row, so that their ids are in order of commit.';
comment on column saved_search_matches.page_id is 'The id in meetings.db, which follows from the page''s text: a changed page has another one.';
comment on column saved_search_matches.is_new_document is 'False: other pages of the document had been published before.';

create table saved_search_deliveries (
    id bigint generated always as identity primary key,
    destination_id bigint not null references saved_search_destinations (id) on delete cascade,
    first_match_id bigint not null,
    last_match_id bigint not null,
    matches integer not null,
    idempotency_key uuid not null default gen_random_uuid(),
    status text not null default 'pending',
    attempt_count integer not null default 0,
    error_code text,
    error_message text,
    last_attempt_at timestamptz,
    created_at timestamptz not null,
    delivered_at timestamptz,
    job_id bigint,
    constraint saved_search_deliveries_range_check check (first_match_id <= last_match_id and matches > 0),
    constraint saved_search_deliveries_status_check check (
        status in ('pending', 'failed_retryable', 'failed_terminal', 'delivered')
        and (status = 'delivered') = (delivered_at is not null))
);
create unique index uix_saved_search_deliveries_range on saved_search_deliveries (destination_id, last_match_id);
create index idx_saved_search_deliveries_open on saved_search_deliveries (id) where status in ('pending', 'failed_retryable');
create index idx_saved_search_deliveries_failed on saved_search_deliveries (last_attempt_at)
    where status in ('failed_retryable', 'failed_terminal');
create index idx_saved_search_deliveries_delivered_at on saved_search_deliveries (delivered_at);

comment on table saved_search_deliveries is
    'One row per message or feed update: the matches of a saved search from first_match_id to last_match_id. Each has a job.';
comment on column saved_search_deliveries.idempotency_key is
    'Message-ID of the mail, webhook-id of the request: the same at every attempt, so that a receiver can recognise a repetition.';

create table published_pages (
    subdomain varchar not null references sites (subdomain) on update cascade on delete cascade,
    kind text not null,
    meeting text not null,
    date text not null,
    page_ids text[] not null,
    pages integer not null,
    new_pages integer not null,
    first_published_at timestamptz not null,
    changed_at timestamptz not null,
    primary key (subdomain, kind, meeting, date)
);
create index idx_published_pages_changed_at on published_pages (subdomain, changed_at desc);

comment on table published_pages is 'One row per document: the ids of all its pages that were ever published, so that new pages are recognised.';
comment on column published_pages.pages is 'Pages in the publication of changed_at.';
comment on column published_pages.new_pages is 'Those of them that were new or changed in it.';

create table publication_matchings (
    publication_id bigint primary key references publications (id) on delete cascade,
    status text not null default 'pending',
    new_pages integer,
    matches integer,
    attempt_count integer not null default 0,
    error_code text,
    error_message text,
    last_attempt_at timestamptz,
    created_at timestamptz not null,
    matched_at timestamptz,
    job_id bigint,
    constraint publication_matchings_status_check check (
        status in ('pending', 'failed_retryable', 'failed_terminal', 'matched', 'superseded')
        and (status in ('matched', 'superseded')) = (matched_at is not null))
);
create index idx_publication_matchings_open on publication_matchings (publication_id)
    where status in ('pending', 'failed_retryable');
create index idx_publication_matchings_failed on publication_matchings (last_attempt_at)
    where status in ('failed_retryable', 'failed_terminal');

comment on table publication_matchings is
    'One row per deployed publication: its new pages are matched with the saved searches once. Each has a job.';
comment on column publication_matchings.status is
    'superseded: the content was replaced before it was matched; the next publication''s matching includes its new pages.';
