-- needs: 0018
create view wrongly_paused_jobs as
select j.id as job_id, j.queue_name, j.args ->> 'subdomain' as subdomain
from procrastinate_jobs j
where j.status = 'todo' and j.scheduled_at = clerk_paused_until()
  and not exists (select from paused_queues q where q.queue_name = j.queue_name)
  and not exists (select from sites s where s.subdomain = j.args ->> 'subdomain' and s.paused_at is not null);

comment on view wrongly_paused_jobs is 'Paused jobs of which neither queue nor site is paused any more.';
