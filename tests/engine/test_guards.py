"""For each guard of the SQL, a scenario that passes with it and fails without it.

The guard is removed from the text of the function's file, in the test's own database. If the text has changed and no
longer contains the guard, the test fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import psycopg
import pytest
from procrastinate import exceptions, jobs

from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.pipeline import engine, job_manager
from clerk.pipeline.connector import ClerkConnector
from clerk.pipeline.job_manager import ClerkJobManager
from tests.conftest import Url
from tests.engine.helpers import (
    Connection,
    Worker,
    add_site,
    broken_invariants,
    coordinators,
    counters,
    expire,
    ignored,
    job_status,
    one,
    rows,
    site,
    start,
    unit,
)
from tests.engine.test_lock_order import concurrently, waits_for
from tests.helpers import until
from tests.reconcile.repair_helpers import repair_all

NewWorker = Callable[[str], Worker]
guarded = pytest.mark.parametrize("guarded", [True, False], ids=["with the guard", "without it"])


@pytest.fixture
def edit_function(connection: Connection, folder: SqlFolder) -> Callable[..., None]:
    """Replaces parts of the text of a function and creates it again."""

    def replace_words(function: str, *words: tuple[str, str]) -> None:
        text = next(item.sql for item in folder.objects if (item.kind, item.name) == ("function", function))
        for old, new in words:
            assert text.count(old) == 1, f"{function} has {text.count(old)} times: {old}"
            text = text.replace(old, new)
        connection.execute(text)

    return replace_words


# The fence


@guarded
def test_fence_by_attempt(
    connection: Connection, new_worker: NewWorker, edit_function: Callable[..., None], guarded: bool
) -> None:
    """A process claims its own rescued job again, and then its first, frozen attempt reports a result."""
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        edit_function("clerk_fence", ("and c.attempt::text = v_attempt", ""))
    worker = new_worker("process")
    frozen = worker.take("ocr")
    expire(connection, frozen)
    engine.rescue_job(connection, frozen.id)
    again = worker.take("ocr")

    assert worker.finish(frozen) is not guarded
    assert unit(connection, items[0])["status"] == ("in_progress" if guarded else "processed")
    assert worker.finish(again, "failed", "PdfBroken") is guarded


@guarded
def test_fence_by_holder(
    connection: Connection, new_worker: NewWorker, edit_function: Callable[..., None], guarded: bool
) -> None:
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        edit_function("clerk_fence", ("and c.holder = current_setting('application_name')", ""))
    job = new_worker("holder").take("ocr")

    assert new_worker("other").finish(job) is not guarded
    assert unit(connection, items[0])["status"] == ("in_progress" if guarded else "processed")


@guarded
def test_fence_of_a_waiting_job(
    connection: Connection, new_worker: NewWorker, edit_function: Callable[..., None], guarded: bool
) -> None:
    """Rescued and not claimed again: finish_job would accept the result of the frozen worker."""
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        edit_function("clerk_fence", ("if v_attempt <> '' and old.status <> 'doing' then", "if false then"))
    worker = new_worker("process")
    frozen = worker.take("ocr")
    expire(connection, frozen)
    engine.rescue_job(connection, frozen.id)

    assert worker.finish(frozen) is not guarded
    assert unit(connection, items[0])["status"] == ("failed_retryable" if guarded else "processed")


@guarded
def test_fence_trigger(connection: Connection, new_worker: NewWorker, guarded: bool) -> None:
    """A retry by a frozen worker would reopen a job that its successor has failed."""
    add_site(connection, documents=2)
    start(connection, phase=2)
    if not guarded:
        connection.execute("drop trigger clerk_fence on procrastinate_jobs")
    frozen_hand, successor = new_worker("frozen"), new_worker("successor")
    frozen = frozen_hand.take("ocr")
    expire(connection, frozen)
    engine.rescue_job(connection, frozen.id)
    job = successor.take("ocr")
    assert job.id == frozen.id
    successor.finish(job, "failed", "PdfBroken")

    assert frozen_hand.retry(frozen) is not guarded
    assert job_status(connection, job.id) == ("failed" if guarded else "todo")


# The ledger


@guarded
def test_ledger_counts_a_unit_once(connection: Connection, edit_function: Callable[..., None], guarded: bool) -> None:
    """Retried by an operator after its phase, and failed again."""
    add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        edit_function(
            "clerk_settle_units",
            ("and l.job_id = e.job_id and l.status not in ('processed', 'failed_terminal')", ""),
        )
    worker = Worker(connection)
    job = worker.take("ocr")
    worker.finish(job, "failed", "PdfBroken")
    connection.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job.id])
    worker.finish(worker.take("ocr"), "failed", "PdfBroken")

    assert counters(connection, "ocr") == (1, 0, 1 if guarded else 2)
    assert {row[0] for row in broken_invariants(connection)} == (set() if guarded else {"I2"})


@guarded
def test_ledger_ignores_a_superseded_run(
    connection: Connection, edit_function: Callable[..., None], guarded: bool
) -> None:
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        edit_function(
            "clerk_settle_units",
            ("and l.run_id = e.run_id\n          and l.job_id = e.job_id", ""),
            (" and s.run_id = u.run_id", ""),
        )
    worker = Worker(connection)
    old = worker.take("ocr")
    start(connection, phase=2)
    worker.finish(old)

    assert unit(connection, items[0])["status"] == ("pending" if guarded else "processed")
    assert ignored(connection) == (["stale"] if guarded else [])


# The claim of the coordinator


@guarded
def test_claim_is_made_once(connection: Connection, edit_function: Callable[..., None], guarded: bool) -> None:
    """Because of a wrong counter, two units appear to be the last. The coordinator of the first is running."""
    add_site(connection, documents=2)
    run = start(connection, phase=2)
    if not guarded:
        edit_function("clerk_settle_units", ("not s.coordinator_enqueued\n                   and ", ""))
    worker = Worker(connection)
    first, second = worker.take("ocr"), worker.take("ocr")
    connection.execute("update sites set ocr_completed = 1")
    worker.finish(first)
    worker.take("coordinator")
    worker.finish(second)

    assert coordinators(connection, run, 2) == (1 if guarded else 2)


@guarded
def test_claim_is_of_the_current_phase(
    connection: Connection, edit_function: Callable[..., None], guarded: bool
) -> None:
    """A late unit of OCR would claim the coordinator of the next phase before its units have ended."""
    add_site(connection, documents=2)
    run = start(connection, phase=2)
    if not guarded:
        edit_function(
            "clerk_settle_units",
            ("count(*) filter (where clerk_phase(u.stage) = clerk_phase(s.current_stage))", "count(*)"),
            ("greatest(clerk_units_left(s, clerk_phase(s.current_stage)), 1)", "clerk_units_left(s, 2)"),
        )
    worker = Worker(connection)
    first, late = worker.take("ocr"), worker.take("ocr")
    connection.execute("update sites set ocr_completed = 1")
    worker.finish(first)
    worker.coordinate(worker.take("coordinator"))
    connection.execute("update sites set ocr_completed = 1")
    worker.finish(late)

    assert site(connection)["phase"] == 3
    assert site(connection)["coordinator_enqueued"] is not guarded
    assert coordinators(connection, run, 3) == (0 if guarded else 1)


@guarded
def test_advance_is_accepted_once(connection: Connection, edit_function: Callable[..., None], guarded: bool) -> None:
    add_site(connection, documents=2)
    run = start(connection)
    if not guarded:
        edit_function(
            "clerk_advance_phase",
            ("or clerk_phase(v_site.current_stage) is distinct from p_phase", ""),
            ("or not v_site.coordinator_enqueued then", "then"),
        )
    worker = Worker(connection)
    worker.finish(worker.take("fetch"))
    engine.advance_phase(connection, "town", run, 1)
    engine.advance_phase(connection, "town", run, 1)

    assert one(connection, "select count(*) from procrastinate_jobs where queue_name = 'ocr'") == (2 if guarded else 4)


# The lock order


@guarded
def test_site_before_ledger(
    connection: Connection, new_worker: NewWorker, edit_function: Callable[..., None], guarded: bool
) -> None:
    """With the ledger first, a finish and a cancel would deadlock."""
    add_site(connection, documents=2)
    start(connection, phase=2)
    if not guarded:
        locking = "    order by s.subdomain\n    for no key update;\n"
        edit_function("clerk_settle_units", (locking, "    order by s.subdomain;\n"))
    worker, operator = new_worker("worker"), new_worker("operator")
    worker.connection.execute("set deadlock_timeout = '100ms'")
    operator.connection.execute("set deadlock_timeout = '100ms'")
    job = worker.take("ocr")
    deadlocked: list[str] = []

    def finish() -> None:
        try:
            worker.finish(job)
        except psycopg.errors.DeadlockDetected:
            deadlocked.append("worker")

    operator.connection.execute("begin")
    one(operator.connection, "select 1 from sites where subdomain = 'town' for no key update")
    with concurrently(finish):
        until(lambda: waits_for(connection, "worker"))
        try:
            engine.cancel_run(operator.connection, "town")
        except psycopg.errors.DeadlockDetected:
            deadlocked.append("operator")
        operator.connection.execute("rollback")
    assert len(deadlocked) == (0 if guarded else 1)


@guarded
def test_locked_jobs_are_skipped(
    connection: Connection, new_worker: NewWorker, edit_function: Callable[..., None], guarded: bool
) -> None:
    """Without SKIP LOCKED, an action on a site would wait for the job of a worker that waits for the site."""
    add_site(connection, documents=2)
    start(connection, phase=2)
    if not guarded:
        edit_function("clerk_stop_jobs", ("for update skip locked", "for update"))
    worker, operator = new_worker("worker"), new_worker("operator")
    worker.connection.execute("set deadlock_timeout = '100ms'")
    operator.connection.execute("set deadlock_timeout = '100ms'")
    job = worker.take("ocr")
    deadlocked: list[str] = []

    def finish() -> None:
        try:
            worker.finish(job)
        except psycopg.errors.DeadlockDetected:
            deadlocked.append("worker")

    operator.connection.execute("begin")
    one(operator.connection, "select 1 from sites where subdomain = 'town' for no key update")
    with concurrently(finish):
        until(lambda: waits_for(connection, "worker"))
        try:
            engine.cancel_run(operator.connection, "town")
        except psycopg.errors.DeadlockDetected:
            deadlocked.append("operator")
        operator.connection.execute("rollback")
    assert len(deadlocked) == (0 if guarded else 1)


@guarded
def test_sites_are_locked_in_order_of_their_key(
    connection: Connection, new_worker: NewWorker, edit_function: Callable[..., None], guarded: bool
) -> None:
    """Two batches that lock the same sites in different orders would deadlock."""
    for name in ("b", "a"):  # so that the job of b has the lower id
        add_site(connection, name, documents=1)
        start(connection, name, phase=2)
    if not guarded:
        edit_function("clerk_settle_units", ("    order by s.subdomain\n", "    order by s.subdomain desc\n"))
    worker, operator = new_worker("worker"), new_worker("operator")
    worker.connection.execute("set lock_timeout = 0")
    jobs_of_both = [worker.take("ocr"), worker.take("ocr")]
    locks_a_first: list[bool] = []

    operator.connection.execute("begin")
    one(operator.connection, "select 1 from sites where subdomain = 'b' for no key update")
    with concurrently(lambda: worker.finish_all(jobs_of_both)):
        until(lambda: waits_for(connection, "worker"))
        free = rows(connection, "select subdomain from sites where subdomain = 'a' for no key update skip locked")
        locks_a_first.append(free == [])
        operator.connection.execute("rollback")
    assert locks_a_first == [guarded]
    assert broken_invariants(connection) == []


@guarded
def test_renewal_locks_claims_in_order_of_the_job(
    connection: Connection, new_worker: NewWorker, edit_function: Callable[..., None], guarded: bool
) -> None:
    """A batch locks its claims in that order: another one would deadlock with it."""
    add_site(connection, documents=2)
    start(connection, phase=2)
    if not guarded:
        edit_function("clerk_renew_leases", ("    order by c.job_id\n", "    order by c.job_id desc\n"))
    worker, other = new_worker("worker"), new_worker("other")
    first, second = worker.take("ocr"), worker.take("ocr")
    claim = "select job_id from job_claims where job_id = %s for no key update"
    locks_the_first: list[bool] = []

    other.connection.execute("begin")
    one(other.connection, claim, [second.id])
    renew = "select count(*) from clerk_renew_leases(%s::bigint[])"
    with concurrently(lambda: one(worker.connection, renew, [[second.id, first.id]])):
        until(lambda: waits_for(connection, "worker"))
        locks_the_first.append(rows(connection, claim + " skip locked", [first.id]) == [])
        other.connection.execute("rollback")
    assert locks_the_first == [guarded]


# P0001: rejected, or committed although the response was lost


@guarded
def test_own_result_is_recognised(connection: Connection, edit_function: Callable[..., None], guarded: bool) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        edit_function(
            "clerk_check_rejected_result",
            ("if exists (select from job_claims c", "if false and exists (select from job_claims c"),
        )
    worker = Worker(connection)
    job = worker.take("ocr")
    assert worker.finish(job)
    assert not worker.finish(job), "sent again because the response was lost"

    assert worker.check_rejected(job, "succeeded") == ("mine" if guarded else "fenced")
    assert ignored(connection) == ([] if guarded else ["fenced"])


@guarded
def test_rescue_is_not_mistaken_for_the_holders_retry(
    connection: Connection, edit_function: Callable[..., None], guarded: bool
) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        edit_function("clerk_check_rejected_result", ("and c.settled_by = c.holder", ""))
    worker = Worker(connection)
    job = worker.take("ocr")
    expire(connection, job)
    engine.rescue_job(connection, job.id)
    assert not worker.retry(job)

    assert worker.check_rejected(job, "todo") == ("fenced" if guarded else "mine")


@guarded
def test_a_fenced_worker_continues(
    connection: Connection, database: Url, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    """Without the handling of P0001 in the job manager, the worker would stop."""
    add_site(connection, documents=1)
    start(connection, phase=2)
    monkeypatch.setenv("DATABASE_URL", database)
    if not guarded:
        monkeypatch.setattr(job_manager, "_RAISE_EXCEPTION", "no such code")

    async def frozen_and_thawed() -> None:
        connector = ClerkConnector()
        manager = ClerkJobManager(connector)
        await connector.open_async()
        try:
            _, (job,) = await manager.finish_and_fetch_jobs([], ["ocr"], await manager.register_worker(), 1)
            connection.execute("update job_claims set lease_until = now() - interval '1 s'")
            assert len(repair_all(connection)) == 1
            await manager.finish_job(job, jobs.Status.SUCCEEDED, False)
        finally:
            await connector.close_async()

    if guarded:
        asyncio.run(frozen_and_thawed())
        assert ignored(connection) == ["fenced"]
    else:
        with pytest.raises(exceptions.ConnectorException):
            asyncio.run(frozen_and_thawed())
    assert rows(connection, "select status from content_item_pipeline_state where pipeline = 'ocr'") == [
        ("failed_retryable",)
    ]
