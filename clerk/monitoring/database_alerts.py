"""Alerts about the database server: connections, old snapshots, dead rows, bloat."""

from __future__ import annotations

from clerk.humanize import format_bytes, format_duration, format_timestamp
from clerk.monitoring.alert import Alert
from clerk.monitoring.database_health import (
    MAX_CONNECTIONS_PERCENT,
    MAX_IDLE_IN_TRANSACTION,
    MAX_NOTIFICATION_QUEUE_PERCENT,
)
from clerk.monitoring.names import are, first_names
from clerk.monitoring.query import Row
from clerk.monitoring.status import PipelineStatus

_SNAPSHOT_REMEDIES = {
    "session": "unless it is a backup, end it: select pg_terminate_backend({pid})",
    "standby": "end the long query on the standby, or set hot_standby_feedback = off there",
    "prepared transaction": "if its client is gone: rollback prepared '{holder}'",
    "replication slot": "if its consumer is gone: select pg_drop_replication_slot('{holder}')",
}
"""Kind of the holder → remedy."""


def find_database_alerts(status: PipelineStatus) -> list[Alert]:
    return [
        *_connections(status),
        *_notification_queue(status),
        *_snapshots(status),
        *_dead_rows(status),
        *_bloat(status),
    ]


def _connections(status: PipelineStatus) -> list[Alert]:
    health, alerts = status.database.health, []
    used, limit = health["connections"], health["connection_limit"]
    if 100 * used >= MAX_CONNECTIONS_PERCENT * limit:
        what = f"{used:,} of {limit:,} connections of the database server are used"
        remedy = "see who has them: select * from connections; raise max_connections, or put a pooler in front"
        alerts.append(Alert("connections", what, remedy, used))
    longest = health["longest_idle_in_transaction"]
    if longest is not None and longest > MAX_IDLE_IN_TRANSACTION:
        what = f"a session has been idle in its transaction for {format_duration(longest)} and may hold locks"
        remedy = "find its process: select * from connections where state like 'idle in transaction%'; end it"
        alerts.append(Alert("idle_in_transaction", what, remedy, health["idle_in_transaction"], status.now - longest))
    return alerts


def _notification_queue(status: PipelineStatus) -> list[Alert]:
    percent = status.database.health["notification_queue_percent"]
    if percent < MAX_NOTIFICATION_QUEUE_PERCENT:
        return []
    what = f"the NOTIFY queue of the database server is {percent:.0f} % full: when it is full, no job can start or end"
    remedy = (
        "end the session that listens in an old transaction: select * from connections order by longest_in_state desc"
    )
    return [Alert("notification_queue", what, remedy)]


def _snapshots(status: PipelineStatus) -> list[Alert]:
    snapshots = status.database.snapshots
    if not snapshots:
        return []
    names = [_snapshot_name(row, status) for row in snapshots]
    what = f"vacuum cannot remove dead rows because of {first_names(names, len(names))}"
    oldest = snapshots[0]
    remedy = _SNAPSHOT_REMEDIES[oldest["kind"]].format_map({key: str(value) for key, value in oldest.items()})
    return [Alert("old_snapshot", what, remedy, len(snapshots), oldest["since"])]


def _snapshot_name(row: Row, status: PipelineStatus) -> str:
    user = f" of {row['user_name']}" if row["user_name"] else ""
    process = f", process {row['pid']}" if row["pid"] else ""
    age = f"since {format_timestamp(row['since'], status.now)}" if row["since"] else "of unknown age"
    return f"{row['kind']} {row['holder']!r}{user} ({age}{process})"


def _dead_rows(status: PipelineStatus) -> list[Alert]:
    tables = status.database.dead_rows
    if not tables:
        return []
    names = [f"{row['table_name']} ({row['dead_rows']:,})" for row in tables]
    what = f"autovacuum is late: dead rows in {first_names(names, len(names))}"
    remedy = "is an old snapshot listed here? End it first; then clerk db maintain"
    return [Alert("dead_rows", what, remedy, len(tables))]


def _bloat(status: PipelineStatus) -> list[Alert]:
    indexes = status.database.bloat
    if not indexes:
        return []
    names = [f"{row['index_name']} ({format_bytes(row['bloat_bytes'])})" for row in indexes]
    what = f"{are(len(indexes), 'index', 'indexes')} bloated: {first_names(names, len(names))}"
    return [Alert("index_bloat", what, "rebuild while workers run: clerk db maintain", len(indexes))]
