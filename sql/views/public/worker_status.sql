-- needs: 0018
create view worker_status as
select w.id as worker_id, coalesce(p.holder, r.holder) as holder,
       case when split_part(coalesce(p.holder, r.holder), ' ', 2) = 'clerk'
            then split_part(coalesce(p.holder, r.holder), ' ', 4) end as host,
       case when split_part(coalesce(p.holder, r.holder), ' ', 2) = 'clerk'
            then split_part(coalesce(p.holder, r.holder), ' ', 3) end as pid,
       p.queues, p.registered_at, w.last_heartbeat, clerk_now() - w.last_heartbeat as heartbeat_age,
       w.last_heartbeat > clerk_now() - interval '1 minute' as alive,
       coalesce(r.jobs, 0) as running, r.doing
from procrastinate_workers w
left join worker_processes p on p.worker_id = w.id
left join (
    select j.worker_id, min(j.holder) as holder, count(*) as jobs,
           string_agg(concat_ws(' ', j.queue, j.subdomain, j.progress || coalesce('/' || j.progress_total, '')),
                      ', ' order by j.claimed_at, j.job_id) as doing
    from running_jobs j
    group by j.worker_id
) r on r.worker_id = w.id;

comment on view worker_status is 'One row per registered worker: host, queues, running jobs, whether it is alive.';
comment on column worker_status.queues is 'NULL: every queue, or a worker that is not part of clerk.';
comment on column worker_status.alive is
    'Its heartbeat is younger than a minute. The row of a dead worker stays until Procrastinate prunes it.';
comment on column worker_status.doing is 'Queue, site and progress of each running job.';
