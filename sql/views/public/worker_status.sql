-- needs: 0017
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

comment on view worker_status is 'A row per worker that has registered: where it is, what it reads, what it does, whether it lives.';
comment on column worker_status.queues is 'NULL: every queue, or a worker that is not clerk''s.';
comment on column worker_status.alive is
    'Heard of within a minute. A dead worker''s row stays until Procrastinate prunes it.';
comment on column worker_status.doing is 'Queue, site and steps done of each job that it runs.';
