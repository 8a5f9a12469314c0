-- needs: 0018
-- Whether another job with the lock of this job runs, or waits before it.
create or replace function clerk_lock_is_taken(p_job procrastinate_jobs) returns boolean
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select exists (
        select from procrastinate_jobs o
        where o.lock = p_job.lock
          and (o.status = 'doing'
               or o.status = 'todo'
                  and (o.priority > p_job.priority or o.priority = p_job.priority and o.id < p_job.id))
    )
$$;
