-- needs: 0018
-- Procrastinate's fetch for chosen queues, in time that does not grow with the number of waiting jobs.
-- Procrastinate's own query asks for `queue_name = any (…) order by priority, id`, which no index can return in
-- order, so it scans the waiting jobs of all other queues. Here idx_procrastinate_jobs_queue_todo gives the first job
-- of each queue, and the queues are tried in the order of those. The rules are the same: priority, then age, and one
-- job at a time per lock.
create or replace function clerk_fetch_job(p_queues text[], p_worker_id bigint) returns procrastinate_jobs
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_queue text;
    v_job procrastinate_jobs;
begin
    if p_queues is null then
        -- Every queue that has a waiting job, with one index lookup per queue.
        with recursive queue (name) as (
            select min(j.queue_name) from procrastinate_jobs j where j.status = 'todo'
            union all
            select (select min(j.queue_name) from procrastinate_jobs j where j.status = 'todo' and j.queue_name > queue.name)
            from queue
            where queue.name is not null
        )
        select array_agg(queue.name) into p_queues from queue where queue.name is not null;
    end if;
    if cardinality(p_queues) > 1 then
        select array_agg(q.name order by first.priority desc, first.id) into p_queues
        from unnest(p_queues) q (name)
        cross join lateral (
            select j.priority, j.id
            from procrastinate_jobs j
            where j.status = 'todo' and j.queue_name = q.name and (j.scheduled_at is null or j.scheduled_at <= now())
              and (j.lock is null
                   or not exists (
                       select from procrastinate_jobs o
                       where o.lock = j.lock
                         and (o.status = 'doing'
                              or o.status = 'todo' and (o.priority > j.priority or o.priority = j.priority and o.id < j.id))
                   ))
            order by j.priority desc, j.id
            limit 1
        ) first;
    end if;
    foreach v_queue in array coalesce(p_queues, '{}') loop
        update procrastinate_jobs f
        set status = 'doing', worker_id = p_worker_id
        where f.id = (
            select j.id
            from procrastinate_jobs j
            where j.status = 'todo' and j.queue_name = v_queue and (j.scheduled_at is null or j.scheduled_at <= now())
              and (j.lock is null
                   or not exists (
                       select from procrastinate_jobs o
                       where o.lock = j.lock
                         and (o.status = 'doing'
                              or o.status = 'todo' and (o.priority > j.priority or o.priority = j.priority and o.id < j.id))
                   ))
            order by j.priority desc, j.id
            limit 1
            for update skip locked
        )
        returning f.* into v_job;
        exit when found;
    end loop;
    return v_job;
end;
$$;
