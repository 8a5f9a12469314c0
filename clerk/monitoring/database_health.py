"""Read model of the database server: what makes it slow or lets it fail, before it does.

docs/prometheus/alerts.yml has the same limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from clerk.monitoring.query import Connection, Row, fetch_rows

MIN_DEAD_ROWS = 10_000
DEAD_ROWS_FACTOR = 3
"""Autovacuum is late when a table has this multiple of the dead rows at which it should have started."""
MIN_BLOAT_BYTES = 100_000_000
MIN_BLOAT_PERCENT = 50
MAX_SNAPSHOT_AGE = timedelta(hours=2)
MAX_SNAPSHOT_TRANSACTIONS = 1_000_000
MAX_IDLE_IN_TRANSACTION = timedelta(minutes=10)
MAX_CONNECTIONS_PERCENT = 80
MAX_NOTIFICATION_QUEUE_PERCENT = 25

_HEALTH = """
select connections::integer, connection_limit, idle_in_transaction::integer, longest_idle_in_transaction,
       oldest_snapshot, oldest_snapshot_transactions, notification_queue_percent::double precision, database_bytes
from database_health
"""
_DEAD_ROWS = """
select table_name, dead_rows, vacuum_threshold, greatest(last_vacuum, last_autovacuum) as last_vacuum
from table_health
where dead_rows > greatest(%(minimum)s, %(factor)s * vacuum_threshold) order by dead_rows desc, table_name
"""
_BLOAT = """
select table_name, index_name, size_bytes, bloat_bytes, bloat_percent::double precision from index_bloat
where bloat_bytes >= %(bytes)s and bloat_percent >= %(percent)s order by bloat_bytes desc, index_name
"""
_SNAPSHOTS = """
select kind, holder, user_name, pid, state, since, transactions from snapshot_holders
where since < clerk_now() - %(age)s or transactions > %(transactions)s order by transactions desc
"""


@dataclass(frozen=True)
class DatabaseHealth:
    health: Row
    """The row of database_health."""
    dead_rows: list[Row]
    """Tables whose autovacuum is late, those with the most dead rows first."""
    bloat: list[Row]
    """Indexes of which a large part is unused, the largest waste first."""
    snapshots: list[Row]
    """Old snapshots, the oldest first."""


def read_database_health(connection: Connection) -> DatabaseHealth:
    (health,) = fetch_rows(connection, _HEALTH)
    return DatabaseHealth(
        health=health,
        dead_rows=fetch_rows(connection, _DEAD_ROWS, minimum=MIN_DEAD_ROWS, factor=DEAD_ROWS_FACTOR),
        bloat=fetch_rows(connection, _BLOAT, bytes=MIN_BLOAT_BYTES, percent=MIN_BLOAT_PERCENT),
        snapshots=fetch_rows(connection, _SNAPSHOTS, age=MAX_SNAPSHOT_AGE, transactions=MAX_SNAPSHOT_TRANSACTIONS),
    )
