-- needs: 0026
-- Pauses a queue: its waiting and future jobs are scheduled for the distant future. Running jobs continue. False if
-- it was paused already.
create or replace function clerk_pause_queue(p_queue text, p_by text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform set_config('clerk.actor', 'clerk_pause_queue', true);
    insert into paused_queues (queue_name, paused_at, paused_by) values (p_queue, clerk_now(), p_by)
    on conflict do nothing;
    if not found then
        return false;
    end if;
    -- Last in the order: a fetch does not read past them, and new sites do not begin at their turn.
    update procrastinate_jobs j
    set scheduled_at = clerk_paused_until(), turn = case when j.turn = 0 then 0 end
    where j.id in (
        select w.id from procrastinate_jobs w
        where w.status = 'todo' and w.queue_name = p_queue
        for update skip locked
    );
    insert into operator_actions (action, detail) values ('pause', jsonb_build_object('queue', p_queue, 'by', p_by));
    return true;
end;
$$;
