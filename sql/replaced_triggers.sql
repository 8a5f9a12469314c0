-- needs: 0020
-- Selects the commands that disable Procrastinate's row triggers for notifications and events. clerk_record_insert and
-- clerk_record_change do their work once per statement; with both, every event would be recorded twice. The migrator
-- executes the commands after every change of the schema, because an upgrade of Procrastinate may enable a trigger.
select format('alter table procrastinate_jobs disable trigger %I', t.tgname)
from pg_trigger t
where t.tgrelid = 'procrastinate_jobs'::regclass and t.tgenabled <> 'D'
  and t.tgname in ('procrastinate_jobs_notify_queue_job_inserted_v1', 'procrastinate_trigger_status_events_insert_v1',
                   'procrastinate_trigger_status_events_update_v1')
order by t.tgname
