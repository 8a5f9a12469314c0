-- Removes the tables of legacy clerk and its five columns of sites. The triggers that update these columns are dropped by
-- their header `-- until: cleanup`. Not a migration: `clerk legacy cleanup --apply` runs it, if its checks hold.
-- Everything is saved for cleanup.down.sql. The clean-up has been run if the table legacy_columns exists.

create table legacy_columns (
    name text primary key,
    definition jsonb not null
);
comment on table legacy_columns is
    'Definitions of the columns of sites that the clean-up dropped. The table exists only after the clean-up.';

insert into legacy_columns
select a.attname, jsonb_build_object('type', format_type(a.atttypid, a.atttypmod), 'not_null', a.attnotnull,
                                     'collation', case when a.attcollation <> t.typcollation
                                                       then a.attcollation::regcollation::text end,
                                     'default', pg_get_expr(d.adbin, d.adrelid),
                                     'comment', col_description(a.attrelid, a.attnum))
from pg_attribute a
join pg_type t on t.oid = a.atttypid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = 'sites'::regclass and not a.attisdropped
  and a.attname in ('status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted');

create table legacy_column_parts (
    position integer generated always as identity primary key,
    command text not null,
    role text
);
comment on table legacy_column_parts is
    'Commands that restore the constraints, indexes, statistics, privileges and comments of the dropped columns.';
comment on column legacy_column_parts.role is 'The role to which the command grants a privilege; the command is skipped if the role does not exist.';

insert into legacy_column_parts (command, role)
with dropped as (
    select a.attnum, a.attname, a.attacl
    from pg_attribute a
    join legacy_columns c on c.name = a.attname
    where a.attrelid = 'sites'::regclass
), dependent as (
    select distinct d.classid, d.objid
    from pg_depend d
    join dropped g on d.refclassid = 'pg_class'::regclass and d.refobjid = 'sites'::regclass and d.refobjsubid = g.attnum
), rule as (
    select c.oid, c.conname, c.contype from dependent o
    join pg_constraint c on o.classid = 'pg_constraint'::regclass and c.oid = o.objid and c.conrelid = 'sites'::regclass
), index as (
    select o.objid::regclass as name, o.objid as oid from dependent o
    join pg_index i on o.classid = 'pg_class'::regclass and i.indexrelid = o.objid
    where not exists (select from pg_constraint c where c.conindid = o.objid and c.contype in ('p', 'u', 'x'))
), statistic as (
    select s.oid, s.stxnamespace::regnamespace as schema, s.stxname from dependent o
    join pg_statistic_ext s on o.classid = 'pg_statistic_ext'::regclass and s.oid = o.objid
), command (position, text, role) as (
    select 1, format('alter table sites add constraint %I %s', r.conname, pg_get_constraintdef(r.oid)), null
    from rule r where r.contype <> 'f'
    union all
    select 2, format('alter table sites add constraint %I %s', r.conname, pg_get_constraintdef(r.oid)), null
    from rule r where r.contype = 'f'
    union all
    select 3, pg_get_indexdef(i.oid), null from index i
    union all
    select 4, pg_get_statisticsobjdef(s.oid), null from statistic s
    union all
    select 5, format('comment on constraint %I on sites is %L', r.conname, obj_description(r.oid, 'pg_constraint')), null
    from rule r where obj_description(r.oid, 'pg_constraint') is not null
    union all
    select 5, format('comment on index %s is %L', i.name, obj_description(i.oid, 'pg_class')), null
    from index i where obj_description(i.oid, 'pg_class') is not null
    union all
    select 5, format('comment on statistics %s.%I is %L', s.schema, s.stxname, obj_description(s.oid, 'pg_statistic_ext')),
           null
    from statistic s where obj_description(s.oid, 'pg_statistic_ext') is not null
    union all
    select 6, format('grant %s (%I) on sites to %s%s', acl.privilege_type, g.attname,
                     case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end,
                     case when acl.is_grantable then ' with grant option' else '' end),
           case when acl.grantee <> 0 then pg_get_userbyid(acl.grantee) end
    from dropped g
    cross join aclexplode(g.attacl) acl
)
select command.text, command.role from command order by command.position, command.text;

-- With the state of each site: if it has changed when the clean-up is undone, the site gets newer values.
create table legacy_column_values as
select subdomain, status, extraction_status, last_updated, last_deployed, last_extracted,
       run_id, current_stage, outcome, clerk_now() as saved_at
from sites;
alter table legacy_column_values
    add primary key (subdomain),
    add foreign key (subdomain) references sites (subdomain) on update cascade on delete cascade;
comment on table legacy_column_values is 'Values of the columns that the clean-up dropped, and the state of their sites at that time.';

alter table sites
    drop column status,
    drop column extraction_status,
    drop column last_updated,
    drop column last_deployed,
    drop column last_extracted;

-- Renamed, not dropped: their contents, indexes and privileges stay.
alter table if exists site_progress rename to legacy_site_progress;
alter table if exists job_tracking rename to legacy_job_tracking;
