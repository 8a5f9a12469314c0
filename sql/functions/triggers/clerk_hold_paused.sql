-- needs: 0017
-- Holds back jobs of a paused queue or site: they are scheduled for a day that resuming brings forward.
-- Also fires when a job goes back to `todo`, so that a retry does not escape the pause.
create or replace function clerk_hold_paused() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    -- Procrastinate fails a retried job that was asked to stop, and leaves the request standing: its next retry
    -- would break check_not_todo_abort_requested.
    new.abort_requested := false;
    if exists (select from paused_queues q where q.queue_name = new.queue_name)
       or exists (select from sites s where s.subdomain = new.args ->> 'subdomain' and s.paused_at is not null) then
        new.scheduled_at := clerk_paused_until();
    elsif new.scheduled_at = clerk_paused_until() then
        -- Cancelled while it was held back, and retried by hand after the pause.
        new.scheduled_at := null;
    end if;
    return new;
end;
$$;
