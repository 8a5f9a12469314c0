-- needs: 0026
-- By table and name: a trigger of the same name on another table does no accounting. Of Procrastinate's triggers, those
-- that clerk replaces must be disabled, and one that this clerk does not know may record what clerk records.
create view trigger_problems as
select o.name, case when t.oid is null then 'is missing' else 'is disabled' end as problem
from clerk_schema_objects o
join (values
    ('clerk_record_change', 'procrastinate_jobs'),
    ('clerk_record_delete', 'procrastinate_jobs'),
    ('clerk_fence', 'procrastinate_jobs'),
    ('clerk_record_insert', 'procrastinate_jobs'),
    ('clerk_hold_paused', 'procrastinate_jobs'),
    ('clerk_apply_weight', 'sites'),
    ('clerk_sync_legacy_columns', 'sites'),
    ('clerk_sync_legacy_columns_on_insert', 'sites'),
    ('clerk_record_coordinator_error', 'procrastinate_jobs'),
    ('clerk_record_delivery_error', 'procrastinate_jobs'),
    ('clerk_save_legacy_site', 'sites')
) w (name, on_table) on w.name = o.name
left join pg_trigger t on t.tgname = o.name and t.tgrelid = to_regclass('public.' || w.on_table) and not t.tgisinternal
where o.kind = 'trigger' and (t.oid is null or t.tgenabled in ('D', 'R'))
union all
select t.tgname,
       case when t.tgname in ('procrastinate_jobs_notify_queue_job_inserted_v1',
                              'procrastinate_trigger_status_events_insert_v1',
                              'procrastinate_trigger_status_events_update_v1')
            then 'is enabled, although clerk does its work: events and notifications are sent twice'
            else 'is unknown to this clerk: it may do what clerk''s triggers do' end
from pg_trigger t
where t.tgrelid = to_regclass('public.procrastinate_jobs') and not t.tgisinternal and t.tgenabled <> 'D'
  and t.tgname like 'procrastinate\_%'
  and t.tgname not in ('procrastinate_jobs_notify_queue_job_aborted_v1', 'procrastinate_trigger_abort_requested_events_v1',
                       'procrastinate_trigger_delete_jobs_v1', 'procrastinate_trigger_scheduled_events_v1');

comment on view trigger_problems is 'Triggers that are missing or disabled, and triggers of Procrastinate that should not be enabled; normally empty.';
