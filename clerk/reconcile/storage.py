"""What the storage says against the books: files that the ledger does not know of, or that it misses."""

from __future__ import annotations

from clerk.config import Settings
from clerk.reconcile.repair import Connection, Repair


def find(connection: Connection, settings: Settings, site: str | None) -> list[Repair]:
    """Repairs for one site, or for all."""
    return []
