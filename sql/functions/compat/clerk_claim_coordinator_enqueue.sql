-- needs: 0018
-- Public helper for scripts of legacy clerk: claims the coordinator. True for exactly one caller per phase.
create or replace function clerk_claim_coordinator_enqueue(p_subdomain text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    update sites s set coordinator_enqueued = true, updated_at = date_trunc('second', clerk_now())
    where s.subdomain = p_subdomain and not s.coordinator_enqueued;
    return found;
end;
$$;
