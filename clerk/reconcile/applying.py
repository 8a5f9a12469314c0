"""Applies the plan, a short transaction per repair, one reconciler at a time."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import psycopg

from clerk.reconcile import books, log, passes
from clerk.reconcile.plan import THRESHOLD, make_plan
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.storage import Comparison

logger = logging.getLogger(__name__)

_LOCK_KEY = 0x7265636F6E  # "recon"
_LOCK_TIMEOUT = "10s"


@dataclass
class Result:
    """What came of it. `busy`: another reconciler was at it, and this one left."""

    busy: bool = False
    done: list[Repair] = field(default_factory=list)
    failed: list[tuple[Repair, str]] = field(default_factory=list)


def reconcile(
    connection: Connection,
    comparison: Comparison | None,
    site: str | None = None,
    threshold: timedelta = THRESHOLD,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> Result:
    """Make a plan and apply it, unless another reconciler is at it: then leave quietly. Without a comparison
    only the books are looked at.

    The lock is the session's: the connection must stay one and the same, not one of a pool that changes with every
    transaction.
    """
    with _alone(connection) as alone:
        if not alone:
            return Result(busy=True)
        reconciliation = uuid.uuid4()
        passes.begin(connection, reconciliation, site)
        plan = make_plan(connection, comparison, site, threshold)
        result = _apply(connection, reconciliation, plan, progress)
        if comparison is not None:
            comparison.record(connection)
        passes.end(connection, reconciliation, len(plan), result.done, len(result.failed))
        return result


def rescue_expired(connection: Connection) -> int:
    """The one repair that cannot wait for a quarter of an hour."""
    return len(_apply(connection, uuid.uuid4(), list(books.find_expired(connection, None))).done)


@contextlib.contextmanager
def _alone(connection: Connection) -> Iterator[bool]:
    row = connection.execute("select pg_try_advisory_lock(%s)", [_LOCK_KEY]).fetchone()
    if not (row and row[0]):
        yield False
        return
    try:
        yield True
    finally:
        connection.execute("select pg_advisory_unlock(%s)", [_LOCK_KEY])


def _apply(
    connection: Connection,
    reconciliation: uuid.UUID,
    repairs: list[Repair],
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> Result:
    result = Result()
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
    return result


def _mend(connection: Connection, reconciliation: uuid.UUID, repair: Repair) -> bool:
    with connection.transaction():
        # Somebody who forgot to commit holds up this repair, not all the others.
        connection.execute("select set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
        before = log.picture(connection, repair)
        if not repair.apply(connection):
            return False
        log.write(connection, reconciliation, repair, before, log.picture(connection, repair))
    return True
