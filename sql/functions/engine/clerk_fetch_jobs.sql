-- needs: 0026
-- Claims up to p_slots jobs in one statement, in time that does not grow with the number of waiting jobs. NULL for
-- p_queues: all queues.
--
-- The rules are Procrastinate's: priority, then age, and one job at a time per lock; but between priority and age comes
-- the turn, by which the jobs of several sites alternate. Procrastinate's query asks for `queue_name = any (…) order by
-- priority, id`, which no index can return in order, so it scans the waiting jobs of all other queues. Here
-- idx_procrastinate_jobs_queue_todo gives the first jobs of each queue.
create or replace function clerk_fetch_jobs(p_queues text[], p_worker_id bigint, p_slots integer)
returns setof procrastinate_jobs
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
-- A plan that was cached for an empty queue must read a long one in the order of its index, not sort it.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_incremental_sort = off
set jit = off
as $$
declare
    v_queues text[] := p_queues;
    v_limits integer[];
    v_slots integer := p_slots;
    v_passes integer := 0;
    v_fetched integer;
begin
    if v_queues is null then
        -- Every queue that has a waiting job, with one index lookup per queue.
        with recursive queue (name) as (
            select min(j.queue_name) from procrastinate_jobs j where j.status = 'todo'
            union all
            select (select min(j.queue_name) from procrastinate_jobs j where j.status = 'todo' and j.queue_name > queue.name)
            from queue
            where queue.name is not null
        )
        select array_agg(queue.name) into v_queues from queue where queue.name is not null;
    end if;
    v_limits := array[v_slots];
    if cardinality(v_queues) > 1 then
        -- The queues of the first p_slots jobs, by their first job, and how many of these jobs each has.
        select array_agg(queue.name order by queue.place), array_agg(queue.jobs order by queue.place),
               case when sum(queue.jobs) = v_slots then count(*) else 0 end
        into v_queues, v_limits, v_passes
        from (
            select w.queue as name, count(*)::integer as jobs, min(w.place) as place
            from (
                select q.name as queue, row_number() over (order by first.priority desc, first.turn, first.id) as place
                from unnest(v_queues) q (name)
                cross join lateral (
                    select j.priority, j.turn, j.id
                    from procrastinate_jobs j
                    where j.status = 'todo' and j.queue_name = q.name
                      and (j.scheduled_at is null or j.scheduled_at <= now())
                      and (j.lock is null or not clerk_lock_is_taken(j))
                    order by j.priority desc, j.turn, j.id
                    limit v_slots
                ) first
                order by first.priority desc, first.turn, first.id
                limit v_slots
            ) w
            group by w.queue
        ) queue;
    end if;

    -- Pass 0 fetches from all queues. Some of the jobs counted above may be locked by other workers: further passes, one
    -- queue each, fill the slots that are left.
    for v_pass in 0 .. v_passes loop
        exit when v_slots = 0 or v_queues is null;
        return query
        with fetched as (
            update procrastinate_jobs f
            set status = 'doing', worker_id = p_worker_id
            -- As an array, which is evaluated once: `update … from` would read the whole queue.
            where f.id = any (array(
                select first.id
                from unnest(case when v_pass = 0 then v_queues else v_queues[v_pass:v_pass] end,
                            case when v_pass = 0 then v_limits else array[v_slots] end) q (name, jobs)
                cross join lateral (
                    select j.id
                    from procrastinate_jobs j
                    where j.status = 'todo' and j.queue_name = q.name
                      and (j.scheduled_at is null or j.scheduled_at <= now())
                      and (j.lock is null or not clerk_lock_is_taken(j))
                    order by j.priority desc, j.turn, j.id
                    limit q.jobs
                    for update skip locked
                ) first
            ))
            returning f.*
        )
        select f.* from fetched f order by f.priority desc, f.turn, f.id;
        get diagnostics v_fetched = row_count;
        v_slots := v_slots - v_fetched;
    end loop;
end;
$$;
