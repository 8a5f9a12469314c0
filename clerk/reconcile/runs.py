"""reconcile_runs: every reconciliation, whatever it found. What it mended is in reconcile_log."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from clerk.reconcile.repair import GIVEN_UP, Connection, Repair


def begin(connection: Connection, reconciliation: uuid.UUID, site: str | None) -> None:
    connection.execute("insert into reconcile_runs (reconciliation, subdomain) values (%s, %s)", [reconciliation, site])


def end(connection: Connection, reconciliation: uuid.UUID, found: int, done: Sequence[Repair], failed: int) -> None:
    given_up = sum(repair.kind == GIVEN_UP for repair in done)
    connection.execute(
        "update reconcile_runs set ended_at = now(), found = %s, repaired = %s, failed = %s, given_up = %s"
        " where reconciliation = %s",
        [found, len(done) - given_up, failed, given_up, reconciliation],
    )
