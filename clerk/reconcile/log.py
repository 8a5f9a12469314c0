"""The tables reconcile_log (every repair, with the rows before and after) and reconcile_runs (every reconciliation)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from psycopg.types.json import Jsonb

from clerk.reconcile.repair import ABANDONED, Connection, Repair

RowSnapshot = dict[str, Any] | None

_INSERT = (
    "insert into reconcile_log (reconciliation, kind, subdomain, run_id, stage, found, done, why, error, before, after)"
    " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def record_start(connection: Connection, reconciliation: uuid.UUID, site: str | None) -> None:
    connection.execute("insert into reconcile_runs (reconciliation, subdomain) values (%s, %s)", [reconciliation, site])


def record_end(
    connection: Connection, reconciliation: uuid.UUID, planned: int, done: Sequence[Repair], failed: int
) -> None:
    abandoned = sum(repair.kind == ABANDONED for repair in done)
    connection.execute(
        "update reconcile_runs set ended_at = now(), found = %s, repaired = %s, failed = %s, abandoned = %s"
        " where reconciliation = %s",
        [planned, len(done) - abandoned, failed, abandoned, reconciliation],
    )


def row_snapshot(connection: Connection, repair: Repair) -> RowSnapshot:
    """The rows that a repair concerns."""
    row = connection.execute(
        "select clerk_state_snapshot(%s, %s, %s, %s)",
        [repair.subdomain, repair.run_id, repair.content_item_id, repair.stage],
    ).fetchone()
    return row[0] if row else None


def record_repair(
    connection: Connection, reconciliation: uuid.UUID, repair: Repair, before: RowSnapshot, after: RowSnapshot
) -> None:
    _insert(connection, reconciliation, repair, None, before, after)


def record_failure(connection: Connection, reconciliation: uuid.UUID, repair: Repair, error: str) -> None:
    """A repair that raised an error and was rolled back."""
    _insert(connection, reconciliation, repair, error, row_snapshot(connection, repair), None)


def delete_old(connection: Connection) -> int:
    """Retention of repairs, reconciliations and operator actions. Returns the number of deleted repairs."""
    row = connection.execute("select clerk_delete_old_records()").fetchone()
    return int(row[0]) if row else 0


def _insert(
    connection: Connection,
    reconciliation: uuid.UUID,
    repair: Repair,
    error: str | None,
    before: RowSnapshot,
    after: RowSnapshot,
) -> None:
    columns = [repair.kind, repair.subdomain, repair.run_id, repair.stage, repair.found, repair.action, repair.why]
    connection.execute(_INSERT, [reconciliation, *columns, error, Jsonb(before), Jsonb(after)])
