-- needs: 0026
-- Records new jobs: Procrastinate's event of each, one notification per queue, and jobs of a paused queue or site are
-- scheduled for the distant future. Resuming schedules them now.
create or replace function clerk_record_insert() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_paused_sites text[];
    v_queue record;
    v_first_job bigint;
begin
    insert into procrastinate_events (job_id, type)
    select n.id, 'deferred' from new_jobs n where n.status = 'todo';

    v_paused_sites := array(select s.subdomain from sites s where s.paused_at is not null);
    if v_paused_sites <> '{}' or exists (select from paused_queues) then
        update procrastinate_jobs j
        set scheduled_at = clerk_paused_until(), turn = case when j.turn = 0 then 0 end
        where j.id = any (array(
            select n.id from new_jobs n
            where n.status = 'todo'
              and (n.queue_name in (select q.queue_name from paused_queues q)
                   or n.args ->> 'subdomain' = any (v_paused_sites))
        ));
    end if;

    for v_queue in
        select n.queue_name as name, min(n.id) as first_job from new_jobs n where n.status = 'todo' group by n.queue_name
    loop
        perform pg_notify('procrastinate_queue_v1#' || v_queue.name, clerk_job_inserted(v_queue.first_job));
        v_first_job := least(v_first_job, v_queue.first_job);
    end loop;
    if v_first_job is not null then
        perform pg_notify('procrastinate_any_queue_v1', clerk_job_inserted(v_first_job));
    end if;
    return null;
end;
$$;
