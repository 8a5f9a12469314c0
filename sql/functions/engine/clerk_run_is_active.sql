-- needs: 0018
-- Whether the run exists and has not ended.
create or replace function clerk_run_is_active(p_run_id bigint) returns boolean
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select exists (select from pipeline_runs r where r.run_id = p_run_id and r.ended_at is null)
$$;
