-- needs: 0006
-- The one clock. A test sets clerk.now to be at another time; nobody else does.
create or replace function clerk_now() returns timestamptz
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select coalesce(nullif(current_setting('clerk.now', true), '')::timestamptz, now())
$$;
