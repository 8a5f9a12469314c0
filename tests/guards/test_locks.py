"""Locks: two sessions at the same time, and a reconciler that is frozen while it has the lock."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.errors import RunInProgress
from clerk.pipeline import engine
from clerk.reconcile import apply
from tests.conftest import Url
from tests.engine.helpers import Connection, Worker, add_site, broken_invariants, connect_worker, one, rows, start
from tests.guards.removal import Guard, removed
from tests.guards.writers import ROOT
from tests.helpers import until

guarded = pytest.mark.parametrize("guarded", [True, False], ids=["with the guard", "without it"])

# Two starts of a run at the same time


@guarded
@pytest.mark.parametrize("supersede", [False, True])
def test_two_runs_are_started_at_once(
    connection: Connection, database: Url, folder: SqlFolder, supersede: bool, guarded: bool
) -> None:
    """Without the lock on the site, the second start would not see the first, and fail at a unique index."""
    add_site(connection, documents=2)
    if not guarded:
        text = next(item.sql for item in folder.objects if (item.kind, item.name) == ("function", "clerk_start_run"))
        assert text.count("for no key update") == 1
        connection.execute(text.replace("for no key update", "").encode())

    def begin(worker: Worker) -> str:
        try:
            return str(engine.start_run(worker.connection, "town", supersede=supersede))
        except (RunInProgress, psycopg.Error) as error:
            return type(error).__name__

    with (
        connect_worker(database, "first") as first,
        connect_worker(database, "second") as second,
        ThreadPoolExecutor() as pool,
    ):
        first.connection.execute("begin")
        first_run = begin(first)
        started = pool.submit(begin, second)
        until(lambda: _waits(connection, "second"))
        first.connection.execute("commit")
        second_run = started.result()
    if not guarded:
        assert second_run == "UniqueViolation"
    elif supersede:
        assert int(second_run) > int(first_run)
        assert rows(connection, "select run_id, outcome from pipeline_runs order by 1") == [
            (int(first_run), "cancelled"),
            (int(second_run), None),
        ]
    else:
        assert second_run == "RunInProgress"
    assert not broken_invariants(connection)


def _waits(connection: Connection, name: str) -> bool:
    query = "select wait_event_type = 'Lock' from pg_stat_activity where application_name = %s"
    return bool(one(connection, query, [name]))


# Reconcilers


@pytest.fixture
def inconsistent(connection: Connection) -> None:
    """Two sites, each with a wrong counter."""
    for name in ("town", "city"):
        add_site(connection, name, documents=2)
        start(connection, name, phase=2)
    connection.execute("update sites set ocr_completed = 2")


def test_one_reconciler_at_a_time(connection: Connection, database: Url, inconsistent: None) -> None:
    with connect_worker(database, "second") as second:
        busy = []

        def reconcile_in_second_session(done: int, total: int) -> None:
            busy.append(apply.reconcile(second.connection, None, threshold=timedelta(0)).busy)

        result = apply.reconcile(connection, None, threshold=timedelta(0), progress=reconcile_in_second_session)
        assert busy == [True, True], "two reconcilers ran at the same time"
        assert len(result.done) == 2
        assert not apply.reconcile(second.connection, None).busy, "the lock was not released"
    assert not broken_invariants(connection)


def test_the_lease_ends_with_the_reconciliation(connection: Connection, inconsistent: None) -> None:
    """A process may also be frozen in a transaction. The connection goes back to the worker's pool."""
    timeouts = "select current_setting('idle_session_timeout'), current_setting('idle_in_transaction_session_timeout')"
    connection.execute("set idle_session_timeout = '77s'")
    during: list[tuple[str, ...]] = []
    apply.reconcile(
        connection, None, threshold=timedelta(0), progress=lambda done, total: during.extend(rows(connection, timeouts))
    )
    assert during == [("2min", "2min")] * 2
    assert rows(connection, timeouts) == [("77s", "0")]


_LEASE_ENDED = """
select clock_timestamp() - state_change > interval '10 s' from pg_stat_activity
where application_name = 'frozen reconciler'
"""


@guarded
def test_a_frozen_reconciler_loses_its_lock(
    connection: Connection, database: Url, inconsistent: None, guarded: bool
) -> None:
    """Frozen by SIGSTOP, with a lease of half a second. When it continues, it can change nothing."""
    lease = "0.5" if guarded else "0"
    command = [sys.executable, "-P", "-m", "tests.guards.frozen_reconciler", database, lease]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: rows(connection, "select from reconcile_log"))
        # Its session has ended, or exists long after the end of the lease.
        until(lambda: rows(connection, _LEASE_ENDED) in ([], [(True,)]))
        result = apply.reconcile(connection, None, threshold=timedelta(0))
        assert result.busy is not guarded
        process.send_signal(signal.SIGCONT)
        _, stderr = process.communicate()
        assert ("terminating connection due to idle-session timeout" in stderr) is guarded, stderr
        assert process.returncode == (1 if guarded else 0)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
    assert rows(connection, "select kind from reconcile_log") == [("counters",), ("counters",)]
    assert not broken_invariants(connection)


LOCK = Guard(
    "one reconciler at a time: reconciliation",
    apply._try_lock,
    '"select pg_try_advisory_lock(%s)"',
    '"select %s > 0"',
    test_one_reconciler_at_a_time,
    "two reconcilers ran at the same time",
)
LEASE = Guard(
    "lease of the lock: reconciliation",
    apply._try_lock,
    '*[f"{lease // timedelta(milliseconds=1)}ms"] * 2',
    '"0", "0"',
    test_a_frozen_reconciler_loses_its_lock,
    "",
)
LOCK_GUARDS = (LOCK, LEASE)


def test_without_the_lock_the_test_fails(connection: Connection, database: Url, inconsistent: None) -> None:
    with removed(LOCK), pytest.raises(AssertionError, match=LOCK.failure):
        test_one_reconciler_at_a_time(connection, database, inconsistent)
