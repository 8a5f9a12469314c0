-- Takes away what only the older system's readers need: its tables, five columns of sites and, by their
-- `-- until: cleanup`, the triggers that kept those in step. Not a migration: `clerk legacy cleanup --apply` runs it,
-- when its checks hold. Everything is set aside for cleanup.down.sql; that adopted_older_columns is there is the
-- record that it was run.

create table adopted_older_columns (
    name text primary key,
    definition jsonb not null
);
comment on table adopted_older_columns is
    'Columns of sites that the clean-up dropped, as they were. This table is there: the clean-up was done.';

insert into adopted_older_columns
select a.attname, jsonb_build_object('type', format_type(a.atttypid, a.atttypmod), 'not_null', a.attnotnull,
                                     'default', pg_get_expr(d.adbin, d.adrelid),
                                     'comment', col_description(a.attrelid, a.attnum))
from pg_attribute a
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = 'sites'::regclass and not a.attisdropped
  and a.attname in ('status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted');

create table adopted_older_values as
select subdomain, status, extraction_status, last_updated, last_deployed, last_extracted from sites;
alter table adopted_older_values add primary key (subdomain);
comment on table adopted_older_values is 'What the columns held that the clean-up dropped.';

alter table sites
    drop column status,
    drop column extraction_status,
    drop column last_updated,
    drop column last_deployed,
    drop column last_extracted;

-- Out of sight under another name, with all that belongs to them.
alter table if exists site_progress rename to adopted_site_progress;
alter table if exists job_tracking rename to adopted_job_tracking;
