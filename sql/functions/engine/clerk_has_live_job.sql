-- needs: 0026
-- Whether a worker with a live lease is processing a unit or the coordinator of this run.
create or replace function clerk_has_live_job(p_subdomain text, p_run_id bigint) returns boolean
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select exists (select from open_units u
                   where u.subdomain = p_subdomain and u.run_id = p_run_id and u.state = 'running')
        or exists (select from open_coordinators c
                   where c.subdomain = p_subdomain and c.run_id = p_run_id and c.state = 'running')
$$;
