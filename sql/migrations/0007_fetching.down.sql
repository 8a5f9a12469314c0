drop table fetch_slots;
drop table fetch_hosts;
drop index uix_content_items_source_key;
alter table content_items
    drop column source_key, drop column source_version, drop column series, drop column superseded_at,
    drop column vanished_at, drop column checked_at, drop column fetched_at, drop column fetch_error_code,
    drop column fetch_error_message, drop column fetch_failed_at;
