-- needs: 0018
-- Whether all units of the stage's phase have ended and its coordinator is not claimed yet. Also a public helper for
-- scripts of legacy clerk.
create or replace function clerk_should_trigger_coordinator(p_subdomain text, p_stage text) returns boolean
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select coalesce((
        select not s.coordinator_enqueued and clerk_units_left(s, clerk_phase(p_stage)) = 0
        from sites s
        where s.subdomain = p_subdomain
    ), false)
$$;
