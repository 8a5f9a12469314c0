-- needs: 0027
create view snapshot_holders as
select case when s.backend_type = 'walsender' then 'standby' else 'session' end as kind, s.application as holder,
       s.user_name, s.pid, s.state, s.transaction_since as since, s.transactions
from clerk_sessions() s
where s.transactions is not null
union all
select 'prepared transaction', p.gid, p.owner::text, null, null, p.prepared, age(p.transaction)::bigint
from pg_prepared_xacts p
where p.database = current_database()
union all
select 'replication slot', s.slot_name::text, null, s.active_pid,
       case when s.active then 'active' else 'inactive' end,
       -- Since Postgres 17.
       (to_jsonb(s) ->> 'inactive_since')::timestamptz, greatest(age(s.xmin), age(s.catalog_xmin))::bigint
from pg_replication_slots s
where s.xmin is not null or s.catalog_xmin is not null
order by transactions desc;

comment on view snapshot_holders is
    'What keeps vacuum from removing dead rows: open transactions, prepared transactions and replication slots, oldest first.';
comment on column snapshot_holders.kind is 'session, standby (with hot_standby_feedback), prepared transaction or replication slot.';
comment on column snapshot_holders.holder is
    'The application_name of the session, the identifier of the prepared transaction, or the name of the slot.';
comment on column snapshot_holders.since is
    'NULL: not known, because clerk_owner lacks pg_read_all_stats, or the slot is active or Postgres older than 17.';
comment on column snapshot_holders.transactions is 'Number of transactions that began after its snapshot.';
