-- needs: 0017
-- The day to which paused jobs are scheduled. Not infinity: Python's datetime has none.
create or replace function clerk_paused_until() returns timestamptz
language sql immutable parallel safe
set search_path = pg_catalog, public, pg_temp
as $$
    select timestamptz '9000-01-01 00:00:00+00'
$$;
