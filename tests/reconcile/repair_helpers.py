"""Reconciliation for tests: without threshold and without files, which most tests do not have."""

from __future__ import annotations

from datetime import timedelta

from clerk.reconcile.apply import reconcile
from clerk.reconcile.repair import Connection, Repair


def repair_all(connection: Connection) -> list[Repair]:
    """The repairs that were made; none may fail."""
    result = reconcile(connection, None, threshold=timedelta(0))
    assert result.failed == []
    return result.done
