-- needs: 0018
-- Reserves one request to a host. Returns a slot and how long to wait before the request may start, or no slot and how
-- long to wait before the next reservation. Over all workers, requests start p_interval apart and at most p_concurrency
-- slots are in use.
create or replace function clerk_reserve_host_slot(
    p_host text, p_interval interval, p_concurrency integer, p_lease interval, out slot_id bigint, out wait interval
)
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_host fetch_hosts;
    v_now timestamptz := clerk_now();
    v_start timestamptz;
begin
    insert into fetch_hosts (host, next_at) values (p_host, v_now) on conflict do nothing;
    select * into v_host from fetch_hosts h where h.host = p_host for no key update;

    if v_host.held_until > v_now then
        wait := v_host.held_until - v_now;
        return;
    end if;
    delete from fetch_slots s where s.host = p_host and s.lease_until <= v_now;
    if (select count(*) from fetch_slots s where s.host = p_host) >= p_concurrency then
        wait := interval '100 milliseconds';
        return;
    end if;

    v_start := greatest(v_host.next_at, v_now);
    update fetch_hosts h set next_at = v_start + p_interval, held_until = null, held_why = null where h.host = p_host;
    insert into fetch_slots (host, lease_until) values (p_host, v_start + p_lease) returning id into slot_id;
    wait := v_start - v_now;
end;
$$;
