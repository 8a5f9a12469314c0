-- needs: 0006
create view stranded_jobs as
select j.id as job_id, j.queue_name, j.args ->> 'subdomain' as subdomain
from procrastinate_jobs j
where j.status = 'todo' and j.scheduled_at = clerk_held_back_until()
  and not exists (select from paused_queues q where q.queue_name = j.queue_name)
  and not exists (select from sites s where s.subdomain = j.args ->> 'subdomain' and s.paused_at is not null);

comment on view stranded_jobs is 'Jobs that are held back although neither their queue nor their site is paused (any more).';
