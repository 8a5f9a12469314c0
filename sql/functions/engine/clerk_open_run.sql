-- needs: 0018
-- The open run of a site, or NULL. A unique index allows only one.
create or replace function clerk_open_run(p_subdomain text) returns bigint
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select r.run_id from pipeline_runs r where r.subdomain = p_subdomain and r.ended_at is null
$$;
