-- needs: 0005
-- Selects the grant and ownership commands that are missing, in their order. The migrator executes them after every
-- change of the schema, so that new and recreated objects are covered, and roles that were created later.
--
--   clerk_owner      owns everything here; members may migrate; reads the sessions of all users (pg_read_all_stats) for
--                    the view snapshot_holders
--   clerk_worker     may read and write every table, read every view and call every function; to audit tables it may
--                    only add rows (clerk_delete_old_records deletes those that are old enough)
--   clerk_dashboard  may select from the views only
--
-- Nobody else may create objects in the schema public, as every user may before Postgres 15 and in databases that were
-- upgraded from there: functions of clerk would use another user's operators. The owner of the database and those of the
-- tables of clerk, Procrastinate and legacy clerk keep the right; clerk_worker and clerk_dashboard never have it.
--
-- Skips roles that do not exist, and privileges that the migrating user may not grant or revoke.

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
                -- A view that Postgres can update gives access to its table with the rights of the owner.
                when c.relkind = 'v' then array['select']
                -- The first run of a legacy site saves the overwritten values there.
                when c.relname in ('legacy_sites', 'adopted_sites') then array['select', 'insert']
                when c.relname like any (array['clerk\_%', 'legacy\_%', 'adopted\_%']) then array['select']
                when audit.is_audit then array['select', 'insert']
                else array['select', 'insert', 'update', 'delete'] end as worker_privileges,
           audit.is_audit
    from pg_class c
    cross join lateral (select c.relname in ('operator_actions', 'reconcile_log', 'ignored_results') as is_audit) audit
    where c.relnamespace = 'public'::regnamespace
      and (c.relkind = 'r'
               and c.relname in (
                   'sites', 'content_items', 'content_item_pipeline_state', 'pipeline_runs', 'pipeline_transitions',
                   'job_claims', 'job_errors', 'reconcile_log', 'stage_policy', 'paused_queues', 'ignored_results',
                   'worker_processes', 'fetch_hosts', 'fetch_slots', 'publications', 'publication_steps', 'storage_scans',
                   'operator_actions', 'reconcile_runs', 'host_problems', 'skipped_entries', 'document_details',
                   'saved_searches', 'saved_search_destinations', 'saved_search_matches', 'saved_search_deliveries',
                   'published_pages', 'publication_matchings', 'extractor_code', 'disk_reports',
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

-- clerk/doctor/worker_privileges.py reads the file up to here.
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
    where t.typnamespace = 'public'::regnamespace
      and (t.typname like 'procrastinate\_%' or t.typname in ('clerk_job_change', 'clerk_unit_end'))
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
), open_schema as (
    select n.oid, n.nspacl as acl
    from pg_namespace n
    cross join aclexplode(n.nspacl) acl
    where n.nspname = 'public' and acl.grantee = 0 and acl.privilege_type = 'CREATE'
      and acl.grantor = n.nspowner and pg_has_role(n.nspowner, 'usage')
), creator as (
    select r.oid, r.rolname as name
    from pg_roles r
    where not r.rolsuper and r.rolname not in ('clerk_worker', 'clerk_dashboard')
      and (r.rolname = 'clerk_owner'
           -- These tables always exist, so that nobody gets the right by creating one of the name.
           or exists (select from pg_class c
                      where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relowner = r.oid
                        and c.relname in ('sites', 'content_item_pipeline_state', 'procrastinate_jobs', 'clerk_migrations'))
           or exists (select from pg_database d where d.datname = current_database() and d.datdba = r.oid))
), restricted_function as (
    select p.oid::regprocedure::text as name, role.oid as worker,
           coalesce(p.proacl, acldefault('f', p.proowner)) as acl
    from pg_proc p
    join role on role.name = 'clerk_worker'
    where p.pronamespace = 'public'::regnamespace and p.proname = 'clerk_delete_old_records'
      and pg_has_role(p.proowner, 'usage')
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
    union all
    select 6, format('revoke %s on %s from clerk_worker',
                     string_agg(lower(acl.privilege_type), ', ' order by acl.privilege_type), relation.name)
    from relation
    join role on role.name = 'clerk_worker'
    join pg_class c on c.oid = relation.oid
    cross join aclexplode(c.relacl) acl
    where acl.grantee = role.oid and acl.grantor = relation.owner
      and pg_has_role(relation.owner, 'usage') and (relation.is_audit or relation.kind = 'v')
      and not lower(acl.privilege_type) = any (relation.worker_privileges)
    group by relation.name
    union all
    select 7, format('grant create on schema public to %I', creator.name)
    from open_schema
    cross join creator
    where not exists (select from aclexplode(open_schema.acl) acl
                      where acl.grantee = creator.oid and acl.privilege_type = 'CREATE')
    union all
    select 8, 'revoke create on schema public from public' from open_schema
    union all
    -- Versions of clerk before this line granted it to every role that owned an object in the schema.
    select 8, format('revoke create on schema public from %I', role.name)
    from pg_namespace n
    cross join aclexplode(n.nspacl) acl
    join role on role.oid = acl.grantee and not role.owns
    where n.nspname = 'public' and acl.privilege_type = 'CREATE'
      and acl.grantor = n.nspowner and pg_has_role(n.nspowner, 'usage')
    union all
    select 9, format('grant execute on function %s to clerk_worker', f.name)
    from restricted_function f
    where not exists (select from aclexplode(f.acl) acl where acl.grantee = f.worker)
    union all
    select 10, format('revoke execute on function %s from public', f.name)
    from restricted_function f
    where exists (select from aclexplode(f.acl) acl where acl.grantee = 0)
    union all
    select 11, 'grant pg_read_all_stats to clerk_owner'
    from role
    where role.owns and not pg_has_role(role.oid, 'pg_read_all_stats', 'usage')
      and pg_has_role('pg_read_all_stats', 'member with admin option')
)
select command.text from command order by command.position, command.text;
