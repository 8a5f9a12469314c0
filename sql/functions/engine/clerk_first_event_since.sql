-- needs: 0018
-- The id of the first event at or after a time. Events are numbered in order of time, so this is a binary search over
-- the primary key: a view asks for "id >= this" and reads only its window, without an index on the time that every
-- job would have to maintain. Events of type scheduled have the planned time and are ignored.
--
-- The high cost keeps the planner from calling it in a filter for every row. Security definer, because views call it
-- for users who may not read the table; hence no schema in its search_path in which another user could create an operator.
create or replace function clerk_first_event_since(p_since timestamptz) returns bigint
language plpgsql stable security definer cost 10000
set search_path = pg_catalog, pg_temp
as $$
declare
    v_low bigint := (select min(e.id) from public.procrastinate_events e);
    v_high bigint := (select max(e.id) + 1 from public.procrastinate_events e);
    v_middle bigint;
    v_id bigint;
    v_at timestamptz;
begin
    while v_low < v_high loop
        v_middle := v_low + (v_high - v_low) / 2;
        select e.id, e.at into v_id, v_at
        from public.procrastinate_events e
        where e.id >= v_middle and e.type is distinct from 'scheduled'
        order by e.id
        limit 1;
        if not found or v_at >= p_since then
            v_high := v_middle;
        else
            v_low := v_id + 1;
        end if;
    end loop;
    return coalesce(v_low, 0);
end;
$$;
