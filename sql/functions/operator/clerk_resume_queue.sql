-- needs: 0018
-- Ends the pause of a queue and releases its jobs. False if it was not paused.
create or replace function clerk_resume_queue(p_queue text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform set_config('clerk.actor', 'clerk_resume_queue', true);
    delete from paused_queues q where q.queue_name = p_queue;
    if not found then
        return false;
    end if;
    perform clerk_release_paused_jobs();
    insert into operator_actions (action, detail) values ('resume', jsonb_build_object('queue', p_queue));
    return true;
end;
$$;
