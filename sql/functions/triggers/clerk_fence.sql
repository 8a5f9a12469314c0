-- needs: 0018
-- The fence: only the claim that holds a running job may end it or return it to the queue.
--
-- A worker is identified by application_name and sends its attempt (clerk.attempt) in the same statement. Repairs and
-- operator actions set clerk.actor and pass. Any other update that takes a job out of `doing` is dropped: the row
-- stays, and finish_job raises P0001. todo → doing is never refused: a job that no worker can claim would block
-- all jobs behind it.
create or replace function clerk_fence() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_actor text := coalesce(current_setting('clerk.actor', true), '');
    v_attempt text := coalesce(current_setting('clerk.attempt', true), '');
begin
    if new.status = 'doing' then
        return new;
    end if;
    -- Only a running job has a worker. Otherwise every job that a worker ever ran would be updated when it unregisters.
    new.worker_id := null;
    if v_actor <> '' then
        return new;
    end if;
    -- A worker that settles a job which is not running was frozen while its job was rescued.
    if v_attempt <> '' and old.status <> 'doing' then
        return null;
    end if;
    if old.status = 'doing' and not exists (
        select from job_claims c
        where c.job_id = old.id and c.settled_as is null
          and c.holder = current_setting('application_name')
          and c.attempt::text = v_attempt
    ) then
        return null;
    end if;
    return new;
end;
$$;
