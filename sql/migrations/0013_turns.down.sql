delete from storage_looks where looked_at is null;

alter table storage_looks
    alter column looked_at set not null,
    drop column tried_at;

comment on column storage_looks.looked_at is null;
