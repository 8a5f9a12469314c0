"""reconcile_log: every repair, with the rows before and after."""

from __future__ import annotations

import uuid
from typing import Any

from psycopg.types.json import Jsonb

from clerk.reconcile.repair import Connection, Repair

Picture = dict[str, Any] | None

_WRITE = (
    "insert into reconcile_log (reconciliation, subdomain, run_id, stage, found, done, why, before, after)"
    " values (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def picture(connection: Connection, repair: Repair) -> Picture:
    """The rows that a repair is about."""
    row = connection.execute(
        "select to_jsonb(s) from pipeline_overview s where s.subdomain = %s", [repair.subdomain]
    ).fetchone()
    return row[0] if row else None


def write(connection: Connection, reconciliation: uuid.UUID, repair: Repair, before: Picture, after: Picture) -> None:
    _write(connection, reconciliation, repair, None, before, after)


def write_failure(connection: Connection, reconciliation: uuid.UUID, repair: Repair, error: str) -> None:
    """It was tried, and changed nothing."""
    _write(connection, reconciliation, repair, error, picture(connection, repair), None)


def _write(
    connection: Connection,
    reconciliation: uuid.UUID,
    repair: Repair,
    error: str | None,
    before: Picture,
    after: Picture,
) -> None:
    done = repair.do if error is None else f"failed: {error}"
    about = [repair.subdomain, repair.run_id, repair.stage, repair.found, done, repair.why]
    connection.execute(_WRITE, [reconciliation, *about, Jsonb(before), Jsonb(after)])
