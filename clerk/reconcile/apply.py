"""Applies the plan: one reconciler at a time, one short transaction per repair.

Repairs of the database and of files have separate locks, so that a hanging disk blocks only the latter.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import psycopg

from clerk.reconcile import db_checks, log
from clerk.reconcile.file_checks import StorageScan
from clerk.reconcile.plan import THRESHOLD, plan_database, plan_files
from clerk.reconcile.repair import Connection, Repair

logger = logging.getLogger(__name__)

_DATABASE_LOCK = 0x7265636F6E  # "recon"
_FILES_LOCK = 0x66696C6573  # "files"
_DATABASE_LEASE = timedelta(minutes=2)
_FILES_LEASE = timedelta(minutes=30)
"""Between two statements, the files of a whole site may be hashed."""
_LOCK_TIMEOUT = "10s"


@dataclass
class Result:
    """The result of a reconciliation."""

    busy: bool = False
    """Another reconciler is running; nothing was done."""
    files_busy: bool = False
    """Another reconciler is checking the files; they were left out."""
    done: list[Repair] = field(default_factory=list)
    failed: list[tuple[Repair, str]] = field(default_factory=list)
    reports: list[Repair] = field(default_factory=list)
    """Findings that only an operator can resolve."""


def reconcile(
    connection: Connection,
    scan: StorageScan | None,
    site: str | None = None,
    threshold: timedelta = THRESHOLD,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> Result:
    """Make a plan and apply it, unless another reconciler is running. Without a scan, the files are left out.

    The locks belong to the session, so `connection` must not be pooled per transaction. If the process is frozen or its
    disk hangs, so that it sends no statement for the length of a lease, the server ends the session. That releases the
    lock for other reconcilers, and this one fails at its next statement: it can change nothing without the lock.
    """
    reconciliation, result = uuid.uuid4(), Result()
    with _try_lock(connection, _DATABASE_LOCK, _DATABASE_LEASE) as locked:
        if not locked:
            return Result(busy=True)
        log.record_start(connection, reconciliation, site)
        plan = plan_database(connection, site, threshold)
        _apply(connection, reconciliation, plan, result, progress)
        log.record_end(connection, reconciliation, len(plan), result.done, len(result.failed))
    if scan is None:
        return result
    with _try_lock(connection, _FILES_LOCK, _FILES_LEASE) as locked:
        if not locked:
            result.files_busy = True
            return result
        file_plan = plan_files(connection, scan, plan, site, threshold, dry_run=False)
        _apply(connection, reconciliation, file_plan, result, progress)
        scan.record(connection)
        planned = len(plan) + len(file_plan) - len(result.reports)
        log.record_end(connection, reconciliation, planned, result.done, len(result.failed))
    _log_reports(result.reports)
    return result


def rescue_expired(connection: Connection) -> int:
    """Rescue running jobs without a live lease. Called every minute, between reconciliations."""
    result = Result()
    _apply(connection, uuid.uuid4(), db_checks.find_expired(connection), result)
    return len(result.done)


_logged_reports: set[str] = set()


def _log_reports(reports: list[Repair]) -> None:
    """Log each report once for as long as it persists, not every 15 minutes."""
    messages = {f"{repair.subdomain or 'pipeline'}: {repair.found}" for repair in reports}
    for message in sorted(messages - _logged_reports):
        logger.warning("%s", message)
    _logged_reports.clear()
    _logged_reports.update(messages)


@contextlib.contextmanager
def _try_lock(connection: Connection, lock: int, lease: timedelta) -> Iterator[bool]:
    row = connection.execute("select pg_try_advisory_lock(%s)", [lock]).fetchone()
    if not (row and row[0]):
        yield False
        return
    before = _set_idle_timeouts(connection, *[f"{lease // timedelta(milliseconds=1)}ms"] * 2)
    try:
        yield True
    finally:
        if not connection.broken:
            _set_idle_timeouts(connection, *before)
            connection.execute("select pg_advisory_unlock(%s)", [lock])


def _set_idle_timeouts(connection: Connection, session: str, transaction: str) -> tuple[str, str]:
    """Set after how long the server ends the session if it is idle, and if it is idle in a transaction. Returns the
    values before."""
    row = connection.execute(
        """
        with before as materialized (
            select current_setting('idle_session_timeout') as session,
                   current_setting('idle_in_transaction_session_timeout') as transaction
        )
        select session, transaction, set_config('idle_session_timeout', %s, false),
               set_config('idle_in_transaction_session_timeout', %s, false)
        from before
        """,
        [session, transaction],
    ).fetchone()
    assert row is not None
    return row[0], row[1]


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
            if _apply_one(connection, reconciliation, repair):
                logger.info("%s: %s; repaired: %s", repair.subdomain, repair.found, repair.action)
                result.done.append(repair)
        except Exception as error:
            if isinstance(error, psycopg.OperationalError) and connection.broken:
                raise
            message = f"{type(error).__name__}: {error}"
            logger.warning("%s: %s; repair failed: %s", repair.subdomain, repair.found, message)
            log.record_failure(connection, reconciliation, repair, message)
            result.failed.append((repair, message))
        progress(number, len(repairs))


def _apply_one(connection: Connection, reconciliation: uuid.UUID, repair: Repair) -> bool:
    with connection.transaction():
        # A session that holds a lock for long delays this repair only.
        connection.execute("select set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
        before = log.row_snapshot(connection, repair)
        if not repair.apply(connection):
            return False
        log.record_repair(connection, reconciliation, repair, before, log.row_snapshot(connection, repair))
    return True
