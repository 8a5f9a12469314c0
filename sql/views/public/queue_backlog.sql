-- needs: 0018
create view queue_backlog as
select q.queue, q.waiting, q.scheduled, q.on_hold, q.running,
       case when q.waiting > 0 then
           (select max(e.at) from procrastinate_events e
            where e.job_id = q.oldest_waiting_job and e.type <> 'scheduled') end as oldest_waiting_since,
       p.queue_name is not null as paused, p.paused_at, p.paused_by,
       coalesce(n.ended, 0) as rate_per_hour,
       case when p.queue_name is null and q.running > 0 and q.waiting > 0 and n.recent_rate * 720 > q.waiting + q.running
            then clerk_now() + (q.waiting + q.running) * interval '1 hour' / n.recent_rate::double precision end as eta,
       n.recent_rate
from (
    select a.queue, sum(a.waiting) as waiting, sum(a.scheduled) as scheduled, sum(a.on_hold) as on_hold,
           sum(a.running) as running, min(a.oldest_waiting_job) as oldest_waiting_job
    from (
        select j.queue_name as queue,
               count(*) filter (where j.status = 'todo' and (j.scheduled_at is null or j.scheduled_at <= clerk_now()))
                   as waiting,
               count(*) filter (where j.status = 'todo' and j.scheduled_at > clerk_now()
                                  and j.scheduled_at <> clerk_paused_until()) as scheduled,
               count(*) filter (where j.status = 'todo' and j.scheduled_at = clerk_paused_until()) as on_hold,
               count(*) filter (where j.status = 'doing') as running,
               min(j.id) filter (where j.status = 'todo' and (j.scheduled_at is null or j.scheduled_at <= clerk_now()))
                   as oldest_waiting_job
        from procrastinate_jobs j
        where j.status in ('todo', 'doing')
        group by j.queue_name
        union all
        select paused.queue_name, 0, 0, 0, 0, null from paused_queues paused
    ) a
    group by a.queue
) q
left join paused_queues p on p.queue_name = q.queue
left join (
    select c.queue, c.ended,
           -- Since the first of them, because workers may have started within this time.
           case when c.ended_recently >= 5 then round(c.ended_recently * 3600 / c.seconds_recently, 1)
                when c.ended >= 5 then round(c.ended * 3600 / c.seconds, 1) end as recent_rate
    from (
        select j.queue_name as queue, count(*) as ended,
               greatest(extract(epoch from clerk_now() - min(e.at)), 10) as seconds,
               count(*) filter (where e.at >= clerk_now() - interval '15 minutes') as ended_recently,
               greatest(extract(epoch from clerk_now() - min(e.at) filter (where e.at >= clerk_now() - interval '15 minutes')), 10)
                   as seconds_recently
        from procrastinate_events e
        join procrastinate_jobs j on j.id = e.job_id
        where e.id >= clerk_first_event_since(clerk_now() - interval '1 hour')
          and e.at >= clerk_now() - interval '1 hour' and e.type in ('succeeded', 'failed')
        group by j.queue_name
    ) c
) n on n.queue = q.queue;

comment on view queue_backlog is
    'Per queue that has jobs or is paused: waiting, scheduled, on-hold and running jobs, rate and ETA.';
comment on column queue_backlog.scheduled is 'Waiting for their scheduled time: a retry after its backoff, a periodic task.';
comment on column queue_backlog.on_hold is 'Waiting for their queue or site to be resumed.';
comment on column queue_backlog.oldest_waiting_since is 'Since when the oldest waiting job has been waiting.';
comment on column queue_backlog.rate_per_hour is 'Jobs that succeeded or failed in the last hour.';
comment on column queue_backlog.eta is
    'When the queue will be empty at recent_rate if no job is added; NULL while paused, if no job waits or none runs, if recent_rate is unknown, or if it would take more than 30 days.';
comment on column queue_backlog.recent_rate is
    'Jobs per hour, from those that ended in the last 15 minutes, or in the last hour if they were fewer than 5; NULL if they were fewer than 5 too.';
