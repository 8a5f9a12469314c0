-- needs: 0017
-- Failed through its own fault, rather than because a run, a worker's host or an operator went away.
create or replace function clerk_is_permanent_failure(p_status text, p_error_code text) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, public, pg_temp
as $$
    select p_status = 'failed_terminal'
           and coalesce(p_error_code, '') not in
               ('Superseded', 'RunCancelled', 'RunEnded', 'JobCancelled', 'JobAborted', 'JobDeleted', 'FilesLost')
$$;
