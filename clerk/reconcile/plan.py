"""The plan of all repairs. `--dry-run` prints exactly what applying it would do.

There are two parts, each applied under its own lock because a hanging disk may block file access: first the database,
then the files.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from clerk.db.migrations.verify import require_triggers
from clerk.reconcile import db_checks, escalation
from clerk.reconcile.file_checks import StorageScan
from clerk.reconcile.repair import ABANDONED, Connection, Repair

THRESHOLD = timedelta(hours=2)
"""A site without changes for this long counts as stuck."""

_CORRECTED_BY_RECOUNT = {"missing-units", "counters", "coordinator"}
"""Kinds that an earlier repair of the same site corrects as well, if it recounts."""
_RUN_CHANGES = {"lease", "run", "dirty", ABANDONED}
"""Kinds that change the run or job on which the checks of a site's files depend: those wait for the next plan."""


def make_plan(
    connection: Connection, scan: StorageScan | None, site: str | None = None, threshold: timedelta = THRESHOLD
) -> list[Repair]:
    """All repairs, in the order in which they would be applied; without a scan, those of the database only."""
    plan = plan_database(connection, site, threshold)
    return plan + (plan_files(connection, scan, plan, site, threshold) if scan is not None else [])


def plan_database(connection: Connection, site: str | None, threshold: timedelta) -> list[Repair]:
    require_triggers(connection)
    return _filter(connection, db_checks.run_checks(connection, site), threshold)


def plan_files(
    connection: Connection,
    scan: StorageScan,
    database_plan: list[Repair],
    site: str | None,
    threshold: timedelta,
    dry_run: bool = True,
) -> list[Repair]:
    """`database_plan`: the plan that is applied before this one."""
    run_changed = {repair.subdomain for repair in database_plan if repair.kind in _RUN_CHANGES}
    repaired = {repair.subdomain for repair in database_plan if repair.subdomain is not None}
    repairs = scan.find(connection, site, threshold, repaired, dry_run)
    return _filter(
        connection, [repair for repair in repairs if repair.subdomain not in run_changed], threshold, repaired
    )


def _filter(
    connection: Connection, repairs: list[Repair], threshold: timedelta, repaired: Collection[str] = ()
) -> list[Repair]:
    # Read after the checks: a site that changed during them is active. (A site in `repaired` changed by its repair.)
    active = _active_sites(connection, threshold).difference(repaired)
    return escalation.fail_repeated(
        connection,
        _without_duplicates([repair for repair in repairs if repair.immediate or repair.subdomain not in active]),
    )


def _active_sites(connection: Connection, threshold: timedelta) -> set[str | None]:
    query = "select subdomain from sites where updated_at > clerk_now() - %s::interval"
    return {subdomain for (subdomain,) in connection.execute(query, [threshold])}


def _without_duplicates(repairs: list[Repair]) -> list[Repair]:
    """Without repairs of what an earlier one corrects as well, which would then have nothing to do."""
    result: list[Repair] = []
    recounted: set[str | None] = set()
    units: set[tuple[str | None, int]] = set()
    for repair in repairs:
        if repair.kind in _CORRECTED_BY_RECOUNT and repair.subdomain in recounted:
            continue
        if repair.content_item_id is not None:
            if (repair.stage, repair.content_item_id) in units:
                continue
            units.add((repair.stage, repair.content_item_id))
        if repair.recounts:
            recounted.add(repair.subdomain)
        result.append(repair)
    return result
