-- Whose turn it is to have its files compared with the books, whatever was found there the last time.

alter table storage_looks
    add column tried_at timestamptz,
    alter column looked_at drop not null;

update storage_looks set tried_at = looked_at;

comment on table storage_looks is
    'When reconciliation last compared a site''s files with its rows. No row: never.';
comment on column storage_looks.tried_at is 'When it last began to, whatever came of it: the longest untried is the next.';
comment on column storage_looks.looked_at is
    'When the last comparison began in which nothing was found. Files that changed since are in doubt. NULL: there was none.';
