-- needs: 0020
-- Reports that jobs of one attempt number have succeeded, in one statement, and returns those whose result was accepted.
-- The fence drops the others: clerk_check_rejected_result tells why.
create or replace function clerk_finish_jobs(p_jobs bigint[], p_attempt integer) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
-- Lock order: job rows by id, as an index scan returns them.
set enable_bitmapscan = off
set jit = off
as $$
begin
    perform set_config('clerk.attempt', p_attempt::text, true);
    return query
    update procrastinate_jobs j
    set status = 'succeeded', abort_requested = false, attempts = j.attempts + 1
    where j.id = any (p_jobs) and j.status = 'doing'
    returning j.id;
end;
$$;
