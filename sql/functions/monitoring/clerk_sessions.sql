-- needs: 0027
-- The sessions of the server, without the one that asks. State and times are those of this database and of replication
-- only, and NULL where the owner of this function may not see them: grant it pg_read_all_stats (sql/grants.sql does where
-- it may). Queries are never returned.
--
-- Security definer, because views call it for users who may not see other users' sessions.
create or replace function clerk_sessions()
returns table (
    pid integer, user_name text, database text, application text, backend_type text, state text,
    transaction_since timestamptz, state_since timestamptz, transactions bigint
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select a.pid, a.usename::text, a.datname::text, a.application_name,
           -- Only sessions of users have a user.
           coalesce(a.backend_type, case when a.usesysid is not null then 'client backend' end),
           case when visible.is_visible then a.state end, case when visible.is_visible then a.xact_start end,
           case when visible.is_visible then a.state_change end,
           case when v.pid is null and visible.is_visible
                then greatest(age(a.backend_xmin), age(a.backend_xid))::bigint end
    from pg_stat_activity a
    cross join lateral (select a.datid is null or a.datname = current_database() as is_visible) visible
    -- Postgres ignores the snapshot of a vacuum.
    left join pg_stat_progress_vacuum v on v.pid = a.pid
    where a.pid <> pg_backend_pid()
$$;
