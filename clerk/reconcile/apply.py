"""Applies the plan, a short transaction per repair, one reconciler at a time.

The books are mended under one lock, the files compared and mended under another: a disk that hangs holds up whoever
looks at it, and nobody's books.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import psycopg

from clerk.reconcile import db_checks, log, runs
from clerk.reconcile.file_checks import StorageScan
from clerk.reconcile.plan import THRESHOLD, plan_database, plan_files
from clerk.reconcile.repair import Connection, Repair

logger = logging.getLogger(__name__)

_BOOKS = 0x7265636F6E  # "recon"
_FILES = 0x66696C6573  # "files"
_LOCK_TIMEOUT = "10s"


@dataclass
class Result:
    """What came of it."""

    busy: bool = False
    """Another reconciler was at it, and this one left."""
    files_busy: bool = False
    """Another one compares the files, and this one left those."""
    done: list[Repair] = field(default_factory=list)
    failed: list[tuple[Repair, str]] = field(default_factory=list)
    reports: list[Repair] = field(default_factory=list)
    """What was found, and is not ours to mend."""


def reconcile(
    connection: Connection,
    comparison: StorageScan | None,
    site: str | None = None,
    threshold: timedelta = THRESHOLD,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> Result:
    """Make a plan and apply it, unless another reconciler is at it: then leave quietly. Without a comparison
    only the books are looked at.

    The locks are the session's: the connection must stay one and the same, not one of a pool that changes with every
    transaction.
    """
    reconciliation, result = uuid.uuid4(), Result()
    with _alone(connection, _BOOKS) as alone:
        if not alone:
            return Result(busy=True)
        runs.begin(connection, reconciliation, site)
        plan = plan_database(connection, site, threshold)
        _apply(connection, reconciliation, plan, result, progress)
        runs.end(connection, reconciliation, len(plan), result.done, len(result.failed))
    if comparison is None:
        return result
    with _alone(connection, _FILES) as alone:
        if not alone:
            result.files_busy = True
            return result
        of_files = plan_files(connection, comparison, plan, site, threshold, for_real=True)
        _apply(connection, reconciliation, of_files, result, progress)
        comparison.record(connection)
        found = len(plan) + len(of_files) - len(result.reports)
        runs.end(connection, reconciliation, found, result.done, len(result.failed))
    _say(result.reports)
    return result


def rescue_expired(connection: Connection) -> int:
    """The one repair that cannot wait for a quarter of an hour."""
    result = Result()
    _apply(connection, uuid.uuid4(), list(db_checks.find_expired(connection, None)), result)
    return len(result.done)


_said: set[str] = set()


def _say(reports: list[Repair]) -> None:
    """Each once for as long as it is so: a worker on a machine without the storage would say it every 15 minutes."""
    found = {f"{repair.subdomain or 'pipeline'}: {repair.found}" for repair in reports}
    for sentence in sorted(found - _said):
        logger.warning("%s", sentence)
    _said.clear()
    _said.update(found)


@contextlib.contextmanager
def _alone(connection: Connection, lock: int) -> Iterator[bool]:
    row = connection.execute("select pg_try_advisory_lock(%s)", [lock]).fetchone()
    if not (row and row[0]):
        yield False
        return
    try:
        yield True
    finally:
        connection.execute("select pg_advisory_unlock(%s)", [lock])


def _apply(
    connection: Connection,
    reconciliation: uuid.UUID,
    plan: list[Repair],
    result: Result,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> None:
    result.reports += [repair for repair in plan if repair.is_report]
    repairs = [repair for repair in plan if not repair.is_report]
    for number, repair in enumerate(repairs, start=1):
        try:
            if _mend(connection, reconciliation, repair):
                logger.info("%s: %s, so: %s", repair.subdomain, repair.found, repair.do)
                result.done.append(repair)
        except Exception as error:
            if isinstance(error, psycopg.OperationalError) and connection.broken:
                raise
            said = f"{type(error).__name__}: {error}"
            logger.warning("%s: %s, but: %s", repair.subdomain, repair.found, said)
            log.write_failure(connection, reconciliation, repair, said)
            result.failed.append((repair, said))
        progress(number, len(repairs))


def _mend(connection: Connection, reconciliation: uuid.UUID, repair: Repair) -> bool:
    with connection.transaction():
        # Somebody who forgot to commit holds up this repair, not all the others.
        connection.execute("select set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
        before = log.row_snapshot(connection, repair)
        if not repair.apply(connection):
            return False
        log.write(connection, reconciliation, repair, before, log.row_snapshot(connection, repair))
    return True
