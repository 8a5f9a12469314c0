-- needs: 0018
-- By table and name: a trigger of the same name on another table does no accounting.
create view trigger_problems as
select o.name, case when t.oid is null then 'is missing' else 'is disabled' end as problem
from clerk_schema_objects o
join (values
    ('clerk_record_change', 'procrastinate_jobs'),
    ('clerk_record_delete', 'procrastinate_jobs'),
    ('clerk_fence', 'procrastinate_jobs'),
    ('clerk_hold_paused', 'procrastinate_jobs'),
    ('clerk_hold_paused_retry', 'procrastinate_jobs'),
    ('clerk_sync_legacy_columns', 'sites'),
    ('clerk_sync_legacy_columns_on_insert', 'sites'),
    ('clerk_record_coordinator_error', 'procrastinate_jobs'),
    ('clerk_save_legacy_site', 'sites')
) w (name, on_table) on w.name = o.name
left join pg_trigger t on t.tgname = o.name and t.tgrelid = to_regclass('public.' || w.on_table) and not t.tgisinternal
where o.kind = 'trigger' and (t.oid is null or t.tgenabled in ('D', 'R'));

comment on view trigger_problems is 'Accounting triggers that are missing or disabled; normally empty.';
