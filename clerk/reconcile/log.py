"""reconcile_log: every repair, with the rows before and after."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from psycopg.types.json import Jsonb

from clerk.reconcile.repair import Connection, Repair

RowSnapshot = dict[str, Any] | None

KEPT = timedelta(days=90)

_WRITE = (
    "insert into reconcile_log (reconciliation, kind, subdomain, run_id, stage, found, done, why, error, before, after)"
    " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def row_snapshot(connection: Connection, repair: Repair) -> RowSnapshot:
    """The rows that a repair is about."""
    row = connection.execute(
        "select clerk_state_snapshot(%s, %s, %s, %s)",
        [repair.subdomain, repair.run_id, repair.content_item_id, repair.stage],
    ).fetchone()
    return row[0] if row else None


def write(
    connection: Connection, reconciliation: uuid.UUID, repair: Repair, before: RowSnapshot, after: RowSnapshot
) -> None:
    _write(connection, reconciliation, repair, None, before, after)


def write_failure(connection: Connection, reconciliation: uuid.UUID, repair: Repair, error: str) -> None:
    """It was tried, and changed nothing."""
    _write(connection, reconciliation, repair, error, row_snapshot(connection, repair), None)


def delete_old(connection: Connection) -> int:
    """Retention: what was mended or done long ago is nobody's business any more. Returns how many repairs went."""
    connection.execute("delete from reconcile_runs where started_at < clerk_now() - %s::interval", [KEPT])
    connection.execute("delete from operator_actions where at < clerk_now() - %s::interval", [KEPT])
    return connection.execute("delete from reconcile_log where at < clerk_now() - %s::interval", [KEPT]).rowcount


def _write(
    connection: Connection,
    reconciliation: uuid.UUID,
    repair: Repair,
    error: str | None,
    before: RowSnapshot,
    after: RowSnapshot,
) -> None:
    about = [repair.kind, repair.subdomain, repair.run_id, repair.stage, repair.found, repair.do, repair.why]
    connection.execute(_WRITE, [reconciliation, *about, error, Jsonb(before), Jsonb(after)])
