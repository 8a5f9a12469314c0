-- The roles belong to the whole server and may serve its other databases, so only what they have here is
-- taken back; an administrator may then drop them.

do $$
declare
    v_commands text[];
    v_command text;
begin
    with role as (
        select oid, rolname from pg_roles where rolname in ('clerk_owner', 'clerk_worker', 'clerk_dashboard')
    ), command (place, text) as (
        select 1, format('alter %s %s owner to %I', object.kind, object.name, current_user)
        from role
        join (
            select 'table', oid::regclass::text, relowner
            from pg_class
            where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm')
            union all
            select 'function', oid::regprocedure::text, proowner
            from pg_proc
            where pronamespace = 'public'::regnamespace
            union all
            select 'type', t.oid::regtype::text, t.typowner
            from pg_type t
            left join pg_class c on c.oid = t.typrelid
            where t.typnamespace = 'public'::regnamespace and (t.typtype = 'e' or c.relkind = 'c')
        ) object (kind, name, owner) on object.owner = role.oid
        where role.rolname = 'clerk_owner'
        union all
        select distinct 2, format('revoke all on %s %s from %I',
                                  case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass, role.rolname)
        from pg_class c
        cross join aclexplode(c.relacl) acl
        join role on role.oid = acl.grantee and role.oid <> c.relowner
        where c.relnamespace = 'public'::regnamespace
        union all
        select distinct 3, format('revoke all on schema public from %I', role.rolname)
        from pg_namespace n
        cross join aclexplode(n.nspacl) acl
        join role on role.oid = acl.grantee
        where n.nspname = 'public'
    )
    select array_agg(command.text order by command.place, command.text) into v_commands from command;

    foreach v_command in array coalesce(v_commands, '{}') loop
        execute v_command;
    end loop;
end;
$$;
