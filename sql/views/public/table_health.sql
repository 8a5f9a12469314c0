-- needs: 0027
create view table_health as
select s.relname::text as table_name, s.n_live_tup as live_rows, s.n_dead_tup as dead_rows, autovacuum.threshold as vacuum_threshold,
       s.last_vacuum, s.last_autovacuum, s.last_analyze, s.last_autoanalyze,
       round(100.0 * s.n_tup_hot_upd / nullif(s.n_tup_upd, 0), 1) as hot_update_percent,
       pg_table_size(c.oid) as table_bytes, pg_indexes_size(c.oid) as index_bytes
from pg_stat_user_tables s
join pg_class c on c.oid = s.relid
cross join lateral (
    select coalesce(max(o.option_value) filter (where o.option_name = 'autovacuum_vacuum_threshold'),
                    current_setting('autovacuum_vacuum_threshold'))::bigint as base,
           coalesce(max(o.option_value) filter (where o.option_name = 'autovacuum_vacuum_scale_factor'),
                    current_setting('autovacuum_vacuum_scale_factor'))::double precision as factor,
           -- Since Postgres 18; -1 is no maximum.
           nullif(coalesce(max(o.option_value) filter (where o.option_name = 'autovacuum_vacuum_max_threshold'),
                           current_setting('autovacuum_vacuum_max_threshold', true))::bigint, -1) as maximum
    from pg_options_to_table(c.reloptions) o
) option
cross join lateral (
    select least((option.base + option.factor * greatest(c.reltuples, 0))::bigint, option.maximum) as threshold
) autovacuum
where s.schemaname = 'public'
  and not exists (select from pg_depend d
                  where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e');

comment on view table_health is
    'One row per table: dead rows, when autovacuum is due and when it last ran, and size. From the statistics of Postgres.';
comment on column table_health.dead_rows is 'Old versions of rows that no vacuum has removed yet. Estimated by Postgres.';
comment on column table_health.vacuum_threshold is 'The number of dead rows at which autovacuum starts.';
comment on column table_health.last_vacuum is 'By command, such as clerk db maintain.';
comment on column table_health.hot_update_percent is
    'Percentage of updates that changed no index (HOT). NULL: no updates.';
comment on column table_health.table_bytes is 'Without indexes.';
