-- What comparing the storage with the books has to remember.

create table storage_looks (
    subdomain varchar primary key references sites (subdomain) on update cascade on delete cascade,
    looked_at timestamptz not null,
    whole_at timestamptz
);
comment on table storage_looks is
    'When reconciliation last compared a site''s files with its rows. No row: never.';
comment on column storage_looks.whole_at is 'When it last did so with the hash of every file.';

alter table content_items add column pdf_wanted_at timestamptz;
comment on column content_items.pdf_wanted_at is
    'Since when its PDF is known to be gone or damaged: the next fetch downloads it whatever the source says, and until then it is not read.';

alter table publications add column lost_copy boolean not null default false;
comment on column publications.lost_copy is
    'The same content as before went out once more, since the published copy was gone or damaged.';
