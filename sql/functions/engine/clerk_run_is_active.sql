-- needs: 0017
create or replace function clerk_run_is_active(p_run_id bigint) returns boolean
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select exists (select from pipeline_runs r where r.run_id = p_run_id and r.ended_at is null)
$$;
