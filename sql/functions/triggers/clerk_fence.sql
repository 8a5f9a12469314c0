-- needs: 0017
-- The fence: of all who want to end or give back a running job, only the claim that holds it may.
--
-- A worker says with which attempt it speaks (clerk.attempt, sent in the same statement); its process is known
-- by application_name. Repairs and operators' moves are functions with clerk.actor set, and pass. Everything
-- else that would take a job out of `doing` is dropped: the row stays, and finish_job then raises P0001.
-- todo → doing is never vetoed: the head of the queue would block all jobs behind it.
create or replace function clerk_fence() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_actor text := coalesce(current_setting('clerk.actor', true), '');
    v_attempt text := coalesce(current_setting('clerk.attempt', true), '');
begin
    if v_actor <> '' or new.status = 'doing' then
        return new;
    end if;
    -- A worker that speaks of a job nobody is running was frozen while others took its job away.
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
