-- needs: 0026
-- Keeps a retried job on hold while its queue or site is paused: it is scheduled for the distant future, and resuming
-- schedules it now. clerk_record_insert does the same for new jobs. A job that returns to the queue goes before all
-- that have not been attempted, because its site has had this turn.
create or replace function clerk_hold_paused() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    -- Procrastinate fails a retried job that has an abort request, and keeps the request: the next retry would
    -- violate check_not_todo_abort_requested.
    new.abort_requested := false;
    new.turn := 0;
    if exists (select from paused_queues q where q.queue_name = new.queue_name)
       or exists (select from sites s where s.subdomain = new.args ->> 'subdomain' and s.paused_at is not null) then
        new.scheduled_at := clerk_paused_until();
    elsif new.scheduled_at = clerk_paused_until() then
        -- Cancelled while paused, and retried by an operator after the pause.
        new.scheduled_at := null;
    end if;
    return new;
end;
$$;
