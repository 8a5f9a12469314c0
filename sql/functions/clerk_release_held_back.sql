-- needs: 0006
-- Every job that was held back and whose queue and site go again is due at once.
create or replace function clerk_release_held_back() returns integer
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_queue text;
    v_jobs integer := 0;
begin
    for v_queue in
        update procrastinate_jobs j set scheduled_at = null
        where j.status = 'todo' and j.scheduled_at = clerk_held_back_until()
          and not exists (select from paused_queues q where q.queue_name = j.queue_name)
          and not exists (select from sites s where s.subdomain = j.args ->> 'subdomain' and s.paused_at is not null)
        returning j.queue_name
    loop
        v_jobs := v_jobs + 1;
        perform clerk_wake(v_queue);
    end loop;
    return v_jobs;
end;
$$;
