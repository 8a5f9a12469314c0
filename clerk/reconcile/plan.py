"""The plan of all repairs: what `--dry-run` prints is what applying does.

Two parts, each under a lock of its own, since the files may hang with the disk that they lie on: the books first, then
what the files say against them.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from clerk.db.migrations.verify import require_triggers
from clerk.reconcile import db_checks, escalation
from clerk.reconcile.file_checks import StorageScan
from clerk.reconcile.repair import GIVEN_UP, Connection, Repair

THRESHOLD = timedelta(hours=2)
"""How long nothing must have moved at a site before it counts as stuck."""

_CONSEQUENCES = {"stage", "transition", "members", "counters", "coordinator"}
"""What an earlier repair of the same site puts right on its way, if it settles the books."""
_MOVES = {"lease", "run", "stage", "end", "dirty", GIVEN_UP}
"""What changes the run or the job by which a site's files are judged: they are for the next plan, then."""


def make_plan(
    connection: Connection, comparison: StorageScan | None, site: str | None = None, threshold: timedelta = THRESHOLD
) -> list[Repair]:
    """What would be mended now, in the order in which it would be; without a comparison, from the books only."""
    plan = plan_database(connection, site, threshold)
    return plan + (plan_files(connection, comparison, plan, site, threshold) if comparison is not None else [])


def plan_database(connection: Connection, site: str | None, threshold: timedelta) -> list[Repair]:
    require_triggers(connection)
    return _planned(
        connection, db_checks.run_checks(connection, site) + db_checks.unit_checks(connection, site), threshold
    )


def plan_files(
    connection: Connection,
    comparison: StorageScan,
    of_books: list[Repair],
    site: str | None,
    threshold: timedelta,
    for_real: bool = False,
) -> list[Repair]:
    """`of_books`: the plan that comes before this one."""
    moved = {repair.subdomain for repair in of_books if repair.kind in _MOVES}
    mended = {repair.subdomain for repair in of_books if repair.subdomain is not None}
    found = comparison.find(connection, site, threshold, mended, for_real)
    return _planned(connection, [repair for repair in found if repair.subdomain not in moved], threshold, mended)


def _planned(
    connection: Connection, found: list[Repair], threshold: timedelta, mended: Collection[str] = ()
) -> list[Repair]:
    # Asked last: a site that moved while we looked is alive. (One that we have just mended moved by that alone.)
    lively = _lively_sites(connection, threshold).difference(mended)
    return escalation.fail_repeated(
        connection, _each_once([repair for repair in found if repair.immediate or repair.subdomain not in lively])
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
        if repair.recounts:
            settled.add(repair.subdomain)
        kept.append(repair)
    return kept
