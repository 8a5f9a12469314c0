-- The sites table: made anew, or the older system's adopted in whichever of its forms it is found.
-- What was found is written down first, so that 0001_sites.down.sql can give exactly that back.

create table adopted_schema (
    kind text not null check (kind in ('table', 'column', 'index', 'constraint')),
    name text not null,
    as_found jsonb,
    primary key (kind, name)
);
comment on table adopted_schema is
    'The older system''s sites table as the first migration found it: what going down gives back. Empty if there was none.';
comment on column adopted_schema.as_found is 'NULL for what the migration added.';

-- Asked twice, before and after, and then dropped.
create view sites_part as
select 'table' as kind, c.relname::text as name,
       jsonb_build_object('options', c.reloptions, 'owner', pg_get_userbyid(c.relowner),
                          'comment', obj_description(c.oid, 'pg_class')) as as_found
from pg_class c
where c.oid = to_regclass('public.sites')
union all
select 'column', a.attname,
       jsonb_build_object('type', format_type(a.atttypid, a.atttypmod), 'not_null', a.attnotnull,
                          'default', pg_get_expr(d.adbin, d.adrelid),
                          'comment', col_description(a.attrelid, a.attnum))
from pg_attribute a
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = to_regclass('public.sites') and a.attnum > 0 and not a.attisdropped
union all
select 'index', i.indexrelid::regclass::text, to_jsonb(pg_get_indexdef(i.indexrelid))
from pg_index i
where i.indrelid = to_regclass('public.sites')
union all
select 'constraint', c.conname, to_jsonb(pg_get_constraintdef(c.oid))
from pg_constraint c
where c.conrelid = to_regclass('public.sites') and c.contype <> 'n';

insert into adopted_schema select kind, name, as_found from sites_part;

create table adopted_values (
    subdomain varchar primary key,
    as_found jsonb not null
);
comment on table adopted_values is
    'Values of the older system that the checks on sites refuse (no counter, a negative one, an unknown stage), as found.';

create table if not exists sites (
    subdomain varchar primary key
);

alter table sites
    add column if not exists name varchar,
    add column if not exists state varchar,
    add column if not exists kind varchar,
    add column if not exists scraper varchar,
    add column if not exists pages integer,
    add column if not exists start_year integer,
    add column if not exists extra varchar,
    add column if not exists country varchar,
    add column if not exists lat varchar,
    add column if not exists lng varchar,
    add column if not exists status varchar,
    add column if not exists extraction_status varchar default 'pending',
    add column if not exists last_updated varchar,
    add column if not exists last_deployed varchar,
    add column if not exists last_extracted varchar,
    add column if not exists current_stage varchar,
    add column if not exists started_at timestamptz,
    add column if not exists updated_at timestamptz,
    add column if not exists fetch_total integer not null default 0,
    add column if not exists fetch_completed integer not null default 0,
    add column if not exists fetch_failed integer not null default 0,
    add column if not exists ocr_total integer not null default 0,
    add column if not exists ocr_completed integer not null default 0,
    add column if not exists ocr_failed integer not null default 0,
    add column if not exists compilation_total integer not null default 0,
    add column if not exists compilation_completed integer not null default 0,
    add column if not exists compilation_failed integer not null default 0,
    add column if not exists extraction_total integer not null default 0,
    add column if not exists extraction_completed integer not null default 0,
    add column if not exists extraction_failed integer not null default 0,
    add column if not exists deploy_total integer not null default 0,
    add column if not exists deploy_completed integer not null default 0,
    add column if not exists deploy_failed integer not null default 0,
    add column if not exists coordinator_enqueued boolean not null default false,
    add column if not exists last_error_stage varchar,
    add column if not exists last_error_message text,
    add column if not exists last_error_at timestamptz,
    add column if not exists run_id bigint,
    add column if not exists outcome varchar;

insert into adopted_values
select s.subdomain, jsonb_object_agg(v.key, v.value)
from sites s
cross join jsonb_each(jsonb_build_object(
    'current_stage', s.current_stage, 'coordinator_enqueued', s.coordinator_enqueued,
    'fetch_total', s.fetch_total, 'fetch_completed', s.fetch_completed, 'fetch_failed', s.fetch_failed,
    'ocr_total', s.ocr_total, 'ocr_completed', s.ocr_completed, 'ocr_failed', s.ocr_failed,
    'compilation_total', s.compilation_total, 'compilation_completed', s.compilation_completed,
    'compilation_failed', s.compilation_failed,
    'extraction_total', s.extraction_total, 'extraction_completed', s.extraction_completed,
    'extraction_failed', s.extraction_failed,
    'deploy_total', s.deploy_total, 'deploy_completed', s.deploy_completed, 'deploy_failed', s.deploy_failed)) v
-- First the rows, at little cost, then what is wrong in them.
where (s.current_stage not in ('fetch', 'ocr', 'compilation', 'extraction', 'deploy', 'completed')
       or num_nulls(s.coordinator_enqueued, s.fetch_total, s.fetch_completed, s.fetch_failed,
                    s.ocr_total, s.ocr_completed, s.ocr_failed,
                    s.compilation_total, s.compilation_completed, s.compilation_failed,
                    s.extraction_total, s.extraction_completed, s.extraction_failed,
                    s.deploy_total, s.deploy_completed, s.deploy_failed) > 0
       or least(s.fetch_total, s.fetch_completed, s.fetch_failed, s.ocr_total, s.ocr_completed, s.ocr_failed,
                s.compilation_total, s.compilation_completed, s.compilation_failed,
                s.extraction_total, s.extraction_completed, s.extraction_failed,
                s.deploy_total, s.deploy_completed, s.deploy_failed) < 0)
  and case v.key
          when 'current_stage' then
              v.value #>> '{}' not in ('fetch', 'ocr', 'compilation', 'extraction', 'deploy', 'completed')
          when 'coordinator_enqueued' then v.value = 'null'
          else v.value = 'null' or v.value < '0'
      end
group by s.subdomain;

update sites s set
    current_stage = case when current_stage in ('fetch', 'ocr', 'compilation', 'extraction', 'deploy', 'completed')
                         then current_stage end,
    fetch_total = greatest(fetch_total, 0),
    fetch_completed = greatest(fetch_completed, 0),
    fetch_failed = greatest(fetch_failed, 0),
    ocr_total = greatest(ocr_total, 0),
    ocr_completed = greatest(ocr_completed, 0),
    ocr_failed = greatest(ocr_failed, 0),
    compilation_total = greatest(compilation_total, 0),
    compilation_completed = greatest(compilation_completed, 0),
    compilation_failed = greatest(compilation_failed, 0),
    extraction_total = greatest(extraction_total, 0),
    extraction_completed = greatest(extraction_completed, 0),
    extraction_failed = greatest(extraction_failed, 0),
    deploy_total = greatest(deploy_total, 0),
    deploy_completed = greatest(deploy_completed, 0),
    deploy_failed = greatest(deploy_failed, 0),
    coordinator_enqueued = coalesce(coordinator_enqueued, false)
from adopted_values v
where v.subdomain = s.subdomain;

-- Plain timestamps of the older system were written in UTC. With this zone set the change of type neither
-- rewrites the table nor touches columns that are timestamptz already.
set local timezone = 'UTC';

alter table sites
    alter column started_at type timestamptz,
    alter column updated_at type timestamptz,
    alter column last_error_at type timestamptz,
    alter column fetch_total set default 0, alter column fetch_total set not null,
    alter column fetch_completed set default 0, alter column fetch_completed set not null,
    alter column fetch_failed set default 0, alter column fetch_failed set not null,
    alter column ocr_total set default 0, alter column ocr_total set not null,
    alter column ocr_completed set default 0, alter column ocr_completed set not null,
    alter column ocr_failed set default 0, alter column ocr_failed set not null,
    alter column compilation_total set default 0, alter column compilation_total set not null,
    alter column compilation_completed set default 0, alter column compilation_completed set not null,
    alter column compilation_failed set default 0, alter column compilation_failed set not null,
    alter column extraction_total set default 0, alter column extraction_total set not null,
    alter column extraction_completed set default 0, alter column extraction_completed set not null,
    alter column extraction_failed set default 0, alter column extraction_failed set not null,
    alter column deploy_total set default 0, alter column deploy_total set not null,
    alter column deploy_completed set default 0, alter column deploy_completed set not null,
    alter column deploy_failed set default 0, alter column deploy_failed set not null,
    alter column coordinator_enqueued set default false, alter column coordinator_enqueued set not null,
    alter column extraction_status set default 'pending',
    add constraint sites_current_stage_check
        check (current_stage in ('fetch', 'ocr', 'compilation', 'extraction', 'deploy', 'completed')),
    add constraint sites_outcome_check
        check (outcome in ('succeeded', 'partial', 'failed', 'unchanged', 'no_documents', 'cancelled')),
    add constraint sites_fetch_counters_check
        check (fetch_total >= 0 and fetch_completed >= 0 and fetch_failed >= 0),
    add constraint sites_ocr_counters_check
        check (ocr_total >= 0 and ocr_completed >= 0 and ocr_failed >= 0),
    add constraint sites_compilation_counters_check
        check (compilation_total >= 0 and compilation_completed >= 0 and compilation_failed >= 0),
    add constraint sites_extraction_counters_check
        check (extraction_total >= 0 and extraction_completed >= 0 and extraction_failed >= 0),
    add constraint sites_deploy_counters_check
        check (deploy_total >= 0 and deploy_completed >= 0 and deploy_failed >= 0);

-- Counters change with every finished job. Half-empty pages keep those updates heap-only, and vacuum comes
-- after a share of rows that a table of some thousand sites reaches within minutes, not days.
alter table sites set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);

create index if not exists idx_sites_current_stage on sites (current_stage);
create index if not exists idx_sites_updated_at on sites (updated_at);
create index if not exists idx_sites_coordinator_enqueued on sites (coordinator_enqueued)
    where coordinator_enqueued = false;

insert into adopted_schema (kind, name)
select kind, name from sites_part
where exists (select from adopted_schema where kind = 'table')
on conflict do nothing;

drop view sites_part;

comment on table sites is 'One row per municipality: who it is, where its present run stands, how the last one ended.';
comment on column sites.subdomain is 'The key, everywhere: in URLs, in storage paths, in job arguments.';
comment on column sites.pages is 'Pages in the published archive.';
comment on column sites.extra is 'JSON for the fetcher, as text.';
comment on column sites.current_stage is
    'fetch, ocr, compilation, extraction, deploy or completed; NULL before the first run. While compilation and extraction run side by side: extraction.';
comment on column sites.started_at is 'When the present run, or the last one, began.';
comment on column sites.updated_at is 'Last progress, truncated to the second so that counter updates stay heap-only.';
comment on column sites.coordinator_enqueued is 'The coordinator that ends the present phase has been claimed.';
comment on column sites.last_error_message is '"Class: message", cut to 500 characters.';
comment on column sites.run_id is 'The present run, or the last one: the fencing token of every job.';
comment on column sites.outcome is
    'How the last run ended: succeeded, partial, failed, unchanged, no_documents or cancelled; NULL while one is going.';
comment on column sites.status is 'Older system''s; kept until the clean-up.';
comment on column sites.extraction_status is 'Older system''s; kept until the clean-up.';
comment on column sites.last_updated is 'Older system''s; kept until the clean-up.';
comment on column sites.last_deployed is 'Older system''s; kept until the clean-up.';
comment on column sites.last_extracted is 'Older system''s; kept until the clean-up.';
