-- needs: 0018
-- Notifies workers of a waiting job. Procrastinate notifies on INSERT only: without this, a job that returns to `todo`
-- or is expedited waits for the next poll.
create or replace function clerk_notify_queue(p_queue text) returns void
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform pg_notify('procrastinate_queue_v1#' || p_queue, '{"type": "job_inserted", "job_id": 0}');
    perform pg_notify('procrastinate_any_queue_v1', '{"type": "job_inserted", "job_id": 0}');
end;
$$;
