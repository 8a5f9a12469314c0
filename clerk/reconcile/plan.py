"""One plan of all repairs: what `--dry-run` prints is what applying does."""

from __future__ import annotations

from datetime import timedelta

from clerk.config import Settings
from clerk.reconcile import books, storage
from clerk.reconcile.repair import Connection, Repair

THRESHOLD = timedelta(hours=2)
"""How long nothing must have moved at a site before it counts as stuck."""


def make_plan(
    connection: Connection, settings: Settings | None, site: str | None = None, threshold: timedelta = THRESHOLD
) -> list[Repair]:
    """What would be mended now, in the order in which it would be. Without settings only the books are looked at."""
    found = books.find_structure(connection, site)
    found += storage.find(connection, settings, site) if settings is not None else []
    found += books.find_units(connection, site)
    # Asked last: a site that moved while we looked is alive.
    lively = _lively_sites(connection, threshold)
    return _one_per_unit([repair for repair in found if repair.at_once or repair.subdomain not in lively])


def _lively_sites(connection: Connection, threshold: timedelta) -> set[str | None]:
    moved = "select subdomain from sites where updated_at > clerk_now() - %s::interval"
    return {subdomain for (subdomain,) in connection.execute(moved, [threshold])}


def _one_per_unit(repairs: list[Repair]) -> list[Repair]:
    first: dict[tuple[str | None, int] | int, Repair] = {}
    for number, repair in enumerate(repairs):
        key = -number if repair.content_item_id is None else (repair.stage, repair.content_item_id)
        first.setdefault(key, repair)
    return list(first.values())
