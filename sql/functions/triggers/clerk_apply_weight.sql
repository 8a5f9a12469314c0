-- needs: 0026
-- A new weight of a site applies to the jobs that already wait.
create or replace function clerk_apply_weight() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform clerk_number_jobs(new.subdomain);
    return null;
end;
$$;
