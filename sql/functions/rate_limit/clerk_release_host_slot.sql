-- needs: 0018
-- Releases the slot of a request that has ended.
create or replace function clerk_release_host_slot(p_slot_id bigint) returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    delete from fetch_slots s where s.id = p_slot_id
$$;
