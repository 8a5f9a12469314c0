-- The roles belong to the whole server and may serve its other databases, so only what they have here is
-- taken back; an administrator may then drop them.

do $$
declare
    v_role text;
begin
    if exists (select from pg_roles where rolname = 'clerk_owner') then
        execute format('reassign owned by clerk_owner to %I', current_user);
    end if;
    for v_role in
        select rolname from pg_roles where rolname in ('clerk_owner', 'clerk_worker', 'clerk_dashboard')
    loop
        execute format('revoke all on all tables in schema public from %I', v_role);
        execute format('revoke all on all sequences in schema public from %I', v_role);
        execute format('revoke all on schema public from %I', v_role);
    end loop;
end;
$$;
