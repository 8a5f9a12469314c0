-- needs: 0018
-- The date to which paused jobs are scheduled. Not infinity, which Python's datetime cannot represent.
create or replace function clerk_paused_until() returns timestamptz
language sql immutable parallel safe
set search_path = pg_catalog, public, pg_temp
as $$
    select timestamptz '9000-01-01 00:00:00+00'
$$;
