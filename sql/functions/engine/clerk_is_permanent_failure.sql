-- needs: 0018
-- Whether a unit failed because of its document, rather than because its run, job or files were removed.
create or replace function clerk_is_permanent_failure(p_status text, p_error_code text) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, public, pg_temp
as $$
    select p_status = 'failed_terminal'
           and coalesce(p_error_code, '') not in
               ('Superseded', 'RunCancelled', 'RunEnded', 'JobCancelled', 'JobAborted', 'JobDeleted', 'FilesLost')
$$;
