-- needs: 0001
create view queue_backlog as
select j.queue_name as queue,
       count(*) filter (where j.status = 'todo' and (j.scheduled_at is null or j.scheduled_at <= now())) as waiting,
       count(*) filter (where j.status = 'todo' and j.scheduled_at > now()) as scheduled,
       count(*) filter (where j.status = 'doing') as running
from procrastinate_jobs j
where j.status in ('todo', 'doing')
group by j.queue_name;

comment on view queue_backlog is 'Per queue: jobs that wait for a worker, that wait for their time, and that run.';
