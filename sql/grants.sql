-- needs: 0005
-- Selects the grant and ownership commands that are missing, in their order. The migrator executes them after every
-- change of the schema, so that new and recreated objects are covered, and roles that were created later.
--
--   clerk_owner      owns everything here; members may migrate
--   clerk_worker     may read and write every table, read every view and call every function
--   clerk_dashboard  may select from the views only
--
-- Skips roles that do not exist, and privileges that the migrating user may not grant.

with role as (
    select r.oid, r.rolname as name, r.rolname = 'clerk_owner' as owns
    from pg_roles r
    where r.rolname in ('clerk_owner', 'clerk_worker', 'clerk_dashboard')
), schema_privilege as (
    select role.name as role, wanted.privilege,
           has_schema_privilege(role.oid, 'public', wanted.privilege) as granted,
           has_schema_privilege('public', wanted.privilege || ' with grant option') as grantable
    from role
    join (values ('usage', false), ('create', true)) wanted (privilege, for_owner) on role.owns or not wanted.for_owner
), relation as (
    select c.oid, c.oid::regclass::text as name, c.relkind as kind, c.relowner as owner,
           case when c.relkind = 'S' then array['usage']
                -- The first run of a legacy site saves the overwritten values there.
                when c.relname in ('legacy_sites', 'adopted_sites') then array['select', 'insert']
                when c.relname like any (array['clerk\_%', 'legacy\_%', 'adopted\_%']) then array['select']
                else array['select', 'insert', 'update', 'delete'] end as worker_privileges
    from pg_class c
    where c.relnamespace = 'public'::regnamespace
      and (c.relkind = 'r'
               and c.relname in (
                   'sites', 'content_items', 'content_item_pipeline_state', 'pipeline_runs', 'pipeline_transitions',
                   'job_claims', 'reconcile_log', 'stage_policy', 'paused_queues', 'ignored_results', 'worker_processes',
                   'fetch_hosts', 'fetch_slots', 'publications', 'publication_steps', 'storage_scans',
                   'operator_actions', 'reconcile_runs',
                   'legacy_schema', 'legacy_values', 'legacy_sites', 'legacy_columns', 'legacy_column_parts',
                   'legacy_column_values',
                   -- Names before migration 0017, for a database at an earlier version.
                   'storage_looks', 'reconcile_passes', 'adopted_schema', 'adopted_values', 'adopted_sites',
                   'adopted_older_columns', 'adopted_older_parts', 'adopted_older_values',
                   'clerk_migrations', 'clerk_schema_objects', 'clerk_procrastinate',
                   'procrastinate_jobs', 'procrastinate_events', 'procrastinate_workers',
                   'procrastinate_periodic_defers')
           or c.relkind = 'S' and c.relname like 'procrastinate\_%'
           or c.relkind = 'v' and c.relname in (select o.name from clerk_schema_objects o where o.kind = 'view'))
), object as (
    select 'table' as kind, r.name, r.owner from relation r where r.kind <> 'S'
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
), owner_change as (
    select object.*
    from object
    join role on role.owns
    where object.owner <> role.oid
      and pg_has_role(object.owner, 'usage') and pg_has_role(role.oid, 'usage')
      -- Since Postgres 16 membership may exclude SET ROLE.
      and case when current_setting('server_version_num')::integer >= 160000
               then pg_has_role(role.oid, 'set') else true end
      and (select s.granted or s.grantable from schema_privilege s where s.role = role.name and s.privilege = 'create')
), command (position, text) as (
    select 1, format('grant %s on schema public to %I', s.privilege, s.role)
    from schema_privilege s
    where not s.granted and s.grantable
    union all
    select 2, format('alter %s %s owner to clerk_owner', o.kind, o.name)
    from owner_change o
    union all
    -- The former owner of a table keeps its access: it may be legacy clerk or a web site.
    select 3, format('grant all on %s to %I', o.name, pg_get_userbyid(o.owner))
    from owner_change o
    where o.kind = 'table' and pg_get_userbyid(o.owner) <> current_user
    union all
    select 4, format('grant %s on %s%s to clerk_worker', string_agg(wanted.privilege, ', ' order by wanted.position),
                     case relation.kind when 'S' then 'sequence ' else '' end, relation.name)
    from relation
    join role on role.name = 'clerk_worker'
    cross join unnest(relation.worker_privileges) with ordinality wanted (privilege, position)
    where pg_has_role(relation.owner, 'usage')
      and not case relation.kind when 'S' then has_sequence_privilege(role.oid, relation.oid, wanted.privilege)
                                 else has_table_privilege(role.oid, relation.oid, wanted.privilege) end
    group by relation.kind, relation.name
    union all
    select 5, format('grant select on %s to clerk_dashboard', relation.name)
    from relation
    join role on role.name = 'clerk_dashboard'
    where relation.kind = 'v' and pg_has_role(relation.owner, 'usage')
      and not has_table_privilege(role.oid, relation.oid, 'select')
)
select command.text from command order by command.position, command.text;
