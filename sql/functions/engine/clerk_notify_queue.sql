-- needs: 0018
-- Notifies workers of a waiting job. Inserting a job notifies them too: this is for a job that returns to `todo` or is
-- expedited, and would otherwise wait for the next poll.
create or replace function clerk_notify_queue(p_queue text) returns void
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform pg_notify('procrastinate_queue_v1#' || p_queue, clerk_job_inserted(0));
    perform pg_notify('procrastinate_any_queue_v1', clerk_job_inserted(0));
end;
$$;
