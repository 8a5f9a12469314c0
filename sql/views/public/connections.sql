-- needs: 0027
create view connections as
select case when s.application ~ '^[0-9a-f]{12} clerk ' then 'clerk worker' else s.application end as application,
       s.user_name, s.database, s.state, count(*) as connections,
       max(clerk_now() - s.state_since) as longest_in_state, (array_agg(s.pid order by s.state_since))[1] as longest_pid
from clerk_sessions() s
where s.backend_type = 'client backend'
group by 1, 2, 3, 4;

comment on view connections is
    'Connections to the server by application, user, database and state, without the one that asks. For the limit see database_health.';
comment on column connections.longest_pid is 'Process of the connection that has been in this state for longest.';
comment on column connections.state is
    'NULL: of another database, or not known because clerk_owner lacks pg_read_all_stats.';
