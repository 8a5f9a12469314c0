-- needs: 0027
create view database_health as
select c.connections + 1 as connections,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
       -- Since Postgres 16.
       - coalesce(current_setting('reserved_connections', true)::integer, 0) as connection_limit,
       c.idle_in_transaction, c.longest_idle_in_transaction,
       h.oldest_snapshot, h.oldest_snapshot_transactions,
       round(100 * pg_notification_queue_usage()::numeric, 2) as notification_queue_percent,
       pg_database_size(current_database()) as database_bytes
from (select count(*) as connections,
             count(*) filter (where s.state like 'idle in transaction%') as idle_in_transaction,
             max(clerk_now() - s.state_since) filter (where s.state like 'idle in transaction%')
                 as longest_idle_in_transaction
      from clerk_sessions() s
      where s.backend_type = 'client backend') c
cross join (select max(clerk_now() - s.since) as oldest_snapshot, max(s.transactions) as oldest_snapshot_transactions
            from snapshot_holders s) h;

comment on view database_health is
    'One row: connections and their limit, the oldest snapshot, usage of the NOTIFY queue, and size of the database.';
comment on column database_health.connections is 'Of all databases of the server.';
comment on column database_health.connection_limit is 'max_connections without those reserved for administrators.';
comment on column database_health.oldest_snapshot is 'Its age. Who holds it: snapshot_holders.';
comment on column database_health.oldest_snapshot_transactions is 'Number of transactions that began after the oldest snapshot.';
comment on column database_health.notification_queue_percent is
    'A full queue (100) makes every transaction that notifies fail, and so every job.';
