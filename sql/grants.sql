-- needs: 0005
-- Who may do what. Applied after every change of the schema, so that new and re-made objects are covered.
--
--   clerk_owner      owns everything here; members may migrate
--   clerk_worker     what a worker needs: rows of every table and view, every function
--   clerk_dashboard  SELECT on the views, and on nothing else
--
-- A role that does not exist is passed over, and ownership where the migrating user may not give it away.
-- The commands are collected first: a table cannot be altered while a query that reads it is open.

do $$
declare
    v_tables constant text[] := array[
        'sites', 'content_items', 'content_item_pipeline_state', 'pipeline_runs', 'pipeline_transitions',
        'job_claims', 'reconcile_log', 'adopted_schema', 'adopted_values',
        'clerk_migrations', 'clerk_schema_objects', 'clerk_procrastinate',
        'procrastinate_jobs', 'procrastinate_events', 'procrastinate_workers', 'procrastinate_periodic_defers'];
    v_commands text[];
    v_command text;
begin
    with relation as (
        select c.oid::regclass as name, c.relkind as kind, c.relowner as owner
        from pg_class c
        where c.relnamespace = 'public'::regnamespace
          and (c.relkind = 'r' and c.relname = any (v_tables)
               or c.relkind = 'S' and c.relname like 'procrastinate\_%'
               or c.relkind = 'v' and c.relname in (select o.name from clerk_schema_objects o where o.kind = 'view'))
    ), owned as (
        select 'table' as kind, r.name::text, r.owner from relation r where r.kind <> 'S'
        union all
        select 'function', p.oid::regprocedure::text, p.proowner
        from pg_proc p
        where p.pronamespace = 'public'::regnamespace
          and (p.proname like 'procrastinate\_%'
               or p.proname in (select o.name from clerk_schema_objects o where o.kind = 'function'))
        union all
        select 'type', t.oid::regtype::text, t.typowner
        from pg_type t
        left join pg_class c on c.oid = t.typrelid
        where t.typnamespace = 'public'::regnamespace and t.typname like 'procrastinate\_%'
          and (t.typtype = 'e' or c.relkind = 'c')
    ), command (place, text) as (
        select 1, format('grant usage%s on schema public to %I',
                         case role.rolname when 'clerk_owner' then ', create' else '' end, role.rolname)
        from pg_roles role
        where role.rolname in ('clerk_owner', 'clerk_worker', 'clerk_dashboard')
        union all
        select 2, format('alter %s %s owner to clerk_owner', owned.kind, owned.name)
        from owned
        join pg_roles role on role.rolname = 'clerk_owner'
        where owned.owner <> role.oid
          and pg_has_role(current_user, role.oid, 'member') and pg_has_role(current_user, owned.owner, 'member')
        union all
        select 3, format('grant %s on %s%s to clerk_worker',
                         case relation.kind when 'S' then 'usage' else 'select, insert, update, delete' end,
                         case relation.kind when 'S' then 'sequence ' else '' end, relation.name)
        from relation
        join pg_roles role on role.rolname = 'clerk_worker'
        union all
        select 4, format('grant select on %s to clerk_dashboard', relation.name)
        from relation
        join pg_roles role on role.rolname = 'clerk_dashboard'
        where relation.kind = 'v'
    )
    select array_agg(command.text order by command.place, command.text) into v_commands from command;

    foreach v_command in array coalesce(v_commands, '{}') loop
        execute v_command;
    end loop;
end;
$$;
