drop table document_details;
drop table skipped_entries;
alter table content_items
    drop column date_origin,
    drop column meeting_origin,
    drop column kind_origin;
alter table content_items drop constraint content_items_kind_check;
-- Documents of the further kinds stay, and the older version ignores them. With any of them, the constraint stays not valid.
alter table content_items add constraint content_items_kind_check
    check (kind in ('minutes', 'agenda', 'archive')) not valid;
do $$
begin
    if not exists (select from content_items where kind not in ('minutes', 'agenda', 'archive')) then
        alter table content_items validate constraint content_items_kind_check;
    end if;
end;
$$;
comment on table content_items is
    'A thing that stages work on: a document (minutes or agenda), or the site''s own archive item.';
comment on column pipeline_runs.skipped is 'Entries of the source that this run''s fetch skipped because they are not documents.';
