-- needs: 0018
-- Extends the lease of a slot during a long request. False if the lease had expired and the slot was deleted.
create or replace function clerk_renew_host_slot(p_slot_id bigint, p_lease interval) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    update fetch_slots s set lease_until = clerk_now() + p_lease where s.id = p_slot_id;
    return found;
end;
$$;
