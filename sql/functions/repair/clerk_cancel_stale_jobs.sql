-- needs: 0018
-- Cancels the waiting jobs of a run that has ended. Returns how many there were.
create or replace function clerk_cancel_stale_jobs(p_subdomain text, p_run_id bigint) returns integer
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_jobs bigint[] := array(select j.job_id from stale_jobs j
                             where j.run_id = p_run_id and j.subdomain is not distinct from p_subdomain);
begin
    perform clerk_stop_jobs(v_jobs);
    return cardinality(v_jobs);
end;
$$;
