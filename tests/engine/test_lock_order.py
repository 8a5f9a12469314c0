"""The lock order, observed in pg_stat_activity: a session that has locked a site never waits for a job row.

change of jobs' status:       jobs → claims → sites → ledger → new jobs, each in order of its key
claim:                        job → claim → ledger, never the site
action on a whole site:       site → ledger → jobs, with SKIP LOCKED only
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Barrier, Event, Thread
from typing import Any

import psycopg
import pytest

from clerk.errors import RunInProgress
from clerk.pipeline import engine
from tests.conftest import Url
from tests.engine.helpers import (
    Connection,
    Job,
    Worker,
    add_site,
    broken_invariants,
    connect_worker,
    counters,
    drain,
    ignored,
    job_status,
    one,
    rows,
    site,
    start,
    unit,
)
from tests.helpers import until
from tests.reconcile.repair_helpers import repair_all


@contextmanager
def session(url: Url, name: str) -> Iterator[Worker]:
    with connect_worker(url, name) as worker:
        # A wrong wait fails the test instead of hanging it.
        worker.connection.execute("set statement_timeout = '60s'")
        yield worker


@contextmanager
def concurrently(action: Callable[[], object]) -> Iterator[None]:
    """Run `action` in a thread during the block, and raise its error afterwards."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 (raised again below, in the test's own thread)
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    for error in errors:
        raise error


def waits_for(connection: Connection, waiter: str) -> list[tuple[Any, ...]]:
    """Sessions that block a session, and the waiting statement."""
    return rows(
        connection,
        "select b.application_name, left(w.query, 60) from pg_stat_activity w"
        " cross join unnest(pg_blocking_pids(w.pid)) blocker join pg_stat_activity b on b.pid = blocker"
        " where w.application_name = %s and w.datname = current_database() and w.wait_event_type = 'Lock'",
        [waiter],
    )


ACTIONS: dict[str, Callable[[Connection], object]] = {
    "supersede": lambda c: engine.start_run(c, "town", supersede=True),
    "cancel": lambda c: engine.cancel_run(c, "town"),
    "retry": lambda c: engine.retry_failed(c, "town"),
    "rewind": lambda c: engine.rewind(c, "town", "ocr"),
    "recount": lambda c: engine.recount_site(c, "town"),
    "pause": lambda c: engine.pause_site(c, "town", "me"),
    "redefer coordinator": lambda c: engine.redefer_coordinator(c, "town"),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_finish_waits_for_the_action_that_holds_the_site(connection: Connection, database: Url, action: str) -> None:
    add_site(connection, documents=3)
    start(connection, phase=2)
    with session(database, "worker") as worker, session(database, "operator") as operator:
        job = worker.take("ocr")
        operator.connection.execute("begin")
        one(operator.connection, "select 1 from sites where subdomain = 'town' for no key update")
        with concurrently(lambda: worker.finish(job)):
            until(lambda: waits_for(connection, "worker"))
            assert {row[0] for row in waits_for(connection, "worker")} == {"operator"}
            # The finish has locked its job row and waits; the action completes nevertheless.
            ACTIONS[action](operator.connection)
            assert waits_for(connection, "operator") == []
            operator.connection.execute("commit")
    assert job_status(connection, job.id) == "succeeded"
    assert broken_invariants(connection) == []


@pytest.mark.parametrize("action", ACTIONS)
def test_no_action_waits_for_a_job_row(connection: Connection, database: Url, action: str) -> None:
    """With the rows of waiting, running and failed jobs locked by another session."""
    add_site(connection, documents=4)
    start(connection, phase=2)
    with session(database, "worker") as worker, session(database, "operator") as operator:
        worker.take("ocr")
        worker.finish(worker.take("ocr"), "failed")
        with worker.connection.transaction():
            one(worker.connection, "select count(*) from (select from procrastinate_jobs for update) locked")
            operator.connection.execute("set statement_timeout = '20s'")
            ACTIONS[action](operator.connection)
    assert broken_invariants(connection) == []
    drain(Worker(connection))
    assert repair_all(connection) == []
    assert broken_invariants(connection) == []


def test_no_resume_waits_for_a_job_row(connection: Connection, database: Url) -> None:
    add_site(connection, documents=2)
    start(connection, phase=2)
    engine.pause_site(connection, "town", "me")
    with (
        session(database, "worker") as worker,
        session(database, "operator") as operator,
        worker.connection.transaction(),
    ):
        one(worker.connection, "select count(*) from (select from procrastinate_jobs for update) locked")
        operator.connection.execute("set statement_timeout = '20s'")
        assert engine.resume_site(operator.connection, "town")
    assert len(repair_all(connection)) == 1, "reconciliation releases the skipped jobs"
    assert len(list(iter(Worker(connection).fetch, None))) == 2


def test_a_claim_never_waits_for_the_site(connection: Connection, database: Url) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    with session(database, "worker") as worker, session(database, "operator") as operator:
        with operator.connection.transaction():
            one(operator.connection, "select 1 from sites where subdomain = 'town' for no key update")
            worker.connection.execute("set statement_timeout = '20s'")
            job = worker.take("ocr")
        assert worker.finish(job)


def test_a_rescue_skips_a_job_that_is_ending(connection: Connection, database: Url) -> None:
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    with session(database, "worker") as worker, session(database, "rescuer") as rescuer:
        job = worker.take("ocr")
        connection.execute("update job_claims set lease_until = now() - interval '1 s' where job_id = %s", [job.id])
        with worker.connection.transaction():
            assert worker.finish(job)
            rescuer.connection.execute("set statement_timeout = '20s'")
            assert engine.rescue_job(rescuer.connection, job.id) == "left alone"
    assert unit(connection, items[0])["status"] == "processed"


def test_a_finish_that_waited_for_the_supersede_is_stale(connection: Connection, database: Url) -> None:
    items = add_site(connection, documents=2)
    start(connection, phase=2)
    with session(database, "worker") as worker, session(database, "operator") as operator:
        job = worker.take("ocr")
        operator.connection.execute("begin")
        one(operator.connection, "select 1 from sites where subdomain = 'town' for no key update")
        with concurrently(lambda: worker.finish(job)):
            until(lambda: waits_for(connection, "worker"))
            engine.start_run(operator.connection, "town", supersede=True)
            operator.connection.execute("commit")
    assert counters(connection, "ocr") == (0, 0, 0)
    assert unit(connection, items[0])["error_code"] == "Superseded"
    assert ignored(connection) == ["stale"]
    assert broken_invariants(connection) == []


def deadlocks(connection: Connection) -> int:
    connection.execute("select pg_stat_clear_snapshot()")
    return int(one(connection, "select deadlocks from pg_stat_database where datname = current_database()"))


@pytest.mark.timeout(3600)  # with --long
def test_concurrent_load_without_a_deadlock(
    connection: Connection, database: Url, request: pytest.FixtureRequest
) -> None:
    """Finishers, coordinators, renewals, operators, rescuers and two reconcilers on the same three sites."""
    actions_each = 500 if request.config.getoption("--long") else 60
    names = ["town-1", "town-2", "town-3"]
    for name in names:
        add_site(connection, name, documents=6)
        engine.start_run(connection, name)
    barrier = Barrier(8, timeout=60)
    stopped = Event()
    ended: list[int] = []

    def work(worker: Worker, rng: random.Random) -> None:
        held: list[Job] = []
        while not stopped.is_set():
            while len(held) < 3 and (job := worker.fetch()):
                held.append(job)
            if not held:
                continue
            held_ids = [job.id for job in held]
            if rng.random() < 0.3 and all(job.is_unit and job.attempts == held[0].attempts for job in held):
                _, fetched = worker.finish_and_fetch(held, slots=rng.randrange(4))
                ended.extend(held_ids)
                held = fetched
                continue
            rows(worker.connection, "select clerk_renew_leases(%s::bigint[])", [rng.sample(held_ids, len(held_ids))])
            job = held.pop(rng.randrange(len(held)))
            if not job.is_unit:
                worker.coordinate(job)
            elif rng.random() < 0.15:
                worker.retry(job)
            elif rng.random() < 0.05:
                worker.connection.execute("delete from procrastinate_jobs where id = %s", [job.id])
            else:
                worker.finish(job, rng.choice(["succeeded", "succeeded", "succeeded", "failed", "aborted"]))
            ended.append(job.id)

    def operate(worker: Worker, rng: random.Random) -> None:
        for number in range(1, actions_each + 1):
            name = rng.choice(names)
            actions: list[Callable[[], object]] = [
                partial(engine.start_run, worker.connection, name, supersede=True),
                partial(engine.cancel_run, worker.connection, name),
                partial(engine.retry_failed, worker.connection, name),
                partial(engine.rewind, worker.connection, name, rng.choice(["ocr", "extraction"])),
                partial(engine.start_refresh_run, worker.connection, name),
                partial(engine.pause_site, worker.connection, name, "me"),
            ]
            rng.choice(actions)()
            engine.resume_site(worker.connection, name)
            with suppress(RunInProgress):
                engine.start_run(worker.connection, name)
            worker.connection.execute(
                "update procrastinate_jobs set status = 'todo' where id = (select id from procrastinate_jobs"
                " where status = 'failed' and queueing_lock is null order by random() limit 1) and status = 'failed'"
            )
            # Not faster than jobs end, so that the workers always have jobs.
            until(lambda number=number: len(ended) >= 4 * number or stopped.is_set(), 120)  # type: ignore[misc]

    def reconcile(worker: Worker, rng: random.Random) -> None:
        while not stopped.is_set():
            worker.connection.execute(
                "update job_claims set lease_until = now() - interval '1 s' where job_id ="
                " (select job_id from job_claims where settled_as is null order by random() limit 1)"
            )
            repair_all(worker.connection)
            engine.remove_finished_jobs(worker.connection, one(worker.connection, "select now() - interval '1 s'"), 5)

    errors: list[BaseException] = []

    def run(role: Callable[[Worker, random.Random], None], number: int) -> None:
        try:
            with session(database, f"{role.__name__} {number}") as worker:
                barrier.wait()
                role(worker, random.Random(number))  # noqa: S311
        except BaseException as error:  # noqa: BLE001 (asserted below)
            errors.append(error)
            stopped.set()
            barrier.abort()

    roles = [work, work, work, work, operate, operate, reconcile, reconcile]
    threads = [Thread(target=run, args=(role, number)) for number, role in enumerate(roles)]
    for thread in threads:
        thread.start()
    for thread, role in zip(threads, roles, strict=True):
        if role is operate:
            thread.join()
    stopped.set()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(ended) >= 4 * actions_each
    assert deadlocks(connection) == 0
    assert [row for row in broken_invariants(connection) if row[0] != "I7"] == []
    for name in names:
        engine.resume_site(connection, name)
    connection.execute("update job_claims set lease_until = now() - interval '1 s'")
    worker = Worker(connection)
    for _ in range(20):
        connection.execute("update procrastinate_jobs set scheduled_at = null where task_name = 'clerk.refresh'")
        if not drain(worker) + len(repair_all(connection)):
            break
    assert repair_all(connection) == []
    assert rows(connection, "select run_id from pipeline_runs where ended_at is null") == []
    assert rows(connection, "select phase, run_id from pipeline_transitions group by 1, 2 having count(*) > 1") == []
    assert {site(connection, name)["current_stage"] for name in names} == {"completed"}
    assert broken_invariants(connection) == []


def test_psycopg_reports_a_deadlock_as_one(connection: Connection, database: Url) -> None:
    """The load test would detect a deadlock: two sessions lock two rows in opposite order."""
    add_site(connection, "a", documents=0)
    add_site(connection, "b", documents=0)
    before = deadlocks(connection)
    barrier = Barrier(2, timeout=60)
    seen: list[type[BaseException]] = []

    def lock(order: tuple[str, str]) -> None:
        with session(database, order[0]) as worker:
            worker.connection.execute("set deadlock_timeout = '50ms'")
            try:
                with worker.connection.transaction():
                    worker.connection.execute("update sites set name = 'x' where subdomain = %s", [order[0]])
                    barrier.wait()
                    worker.connection.execute("update sites set name = 'x' where subdomain = %s", [order[1]])
            except psycopg.errors.DeadlockDetected as error:
                seen.append(type(error))

    with concurrently(lambda: lock(("a", "b"))):
        lock(("b", "a"))
    assert len(seen) == 1
    until(lambda: deadlocks(connection) == before + 1)
