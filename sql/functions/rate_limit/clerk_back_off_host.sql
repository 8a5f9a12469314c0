-- needs: 0018
-- Stops all requests to a host for a while, for example after a Retry-After. Never shortens an earlier back-off.
create or replace function clerk_back_off_host(p_host text, p_for interval, p_why text) returns timestamptz
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    insert into fetch_hosts as h (host, next_at, held_until, held_why)
    values (p_host, clerk_now(), clerk_now() + p_for, p_why)
    on conflict (host) do update
    set held_until = greatest(h.held_until, excluded.held_until), held_why = excluded.held_why
    returning h.held_until
$$;
