"""One plan of all repairs: what `--dry-run` prints is what applying does."""

from __future__ import annotations

from datetime import timedelta

from clerk.pg.verify import require_triggers
from clerk.reconcile import books, giving_up
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.storage import Comparison

THRESHOLD = timedelta(hours=2)
"""How long nothing must have moved at a site before it counts as stuck."""

_CONSEQUENCES = {"stage", "transition", "members", "counters", "coordinator"}
"""What an earlier repair of the same site puts right on its way, if it settles the books."""


def make_plan(
    connection: Connection, comparison: Comparison | None, site: str | None = None, threshold: timedelta = THRESHOLD
) -> list[Repair]:
    """What would be mended now, in the order in which it would be; without a comparison, from the books only."""
    require_triggers(connection)
    found = books.find_structure(connection, site)
    found += comparison.find(connection, site, threshold) if comparison is not None else []
    found += books.find_units(connection, site)
    # Asked last: a site that moved while we looked is alive.
    lively = _lively_sites(connection, threshold)
    return giving_up.after_three_times(
        connection, _each_once([repair for repair in found if repair.at_once or repair.subdomain not in lively])
    )


def _lively_sites(connection: Connection, threshold: timedelta) -> set[str | None]:
    moved = "select subdomain from sites where updated_at > clerk_now() - %s::interval"
    return {subdomain for (subdomain,) in connection.execute(moved, [threshold])}


def _each_once(repairs: list[Repair]) -> list[Repair]:
    """No repair of what an earlier one puts right: then applying would do less than the plan says."""
    kept: list[Repair] = []
    settled: set[str | None] = set()
    units: set[tuple[str | None, int]] = set()
    for repair in repairs:
        if repair.kind in _CONSEQUENCES and repair.subdomain in settled:
            continue
        if repair.content_item_id is not None:
            if (repair.stage, repair.content_item_id) in units:
                continue
            units.add((repair.stage, repair.content_item_id))
        if repair.settles_books:
            settled.add(repair.subdomain)
        kept.append(repair)
    return kept
