"""For each guard a scenario that goes right with it, and is seen to go wrong when the guard is taken out.

The guard is cut out of the function's own file, in a database of the test's own; a file that has changed so much that
the cut does not fit fails the test, so that nobody loses a guard without noticing.
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
from tests.engine.test_lock_order import meanwhile, waits_for
from tests.helpers import until
from tests.reconcile.repair_helpers import repair_all

NewWorker = Callable[[str], Worker]
guarded = pytest.mark.parametrize("guarded", [True, False], ids=["with the guard", "without it"])


@pytest.fixture
def cut(connection: Connection, folder: SqlFolder) -> Callable[..., None]:
    """Replaces a function by one in which some words of its file are others."""

    def cut_out(function: str, *words: tuple[str, str]) -> None:
        text = next(item.sql for item in folder.objects if (item.kind, item.name) == ("function", function))
        for old, new in words:
            assert text.count(old) == 1, f"{function} has {text.count(old)} times: {old}"
            text = text.replace(old, new)
        connection.execute(text)

    return cut_out


# The fence


@guarded
def test_fence_by_attempt(
    connection: Connection, new_worker: NewWorker, cut: Callable[..., None], guarded: bool
) -> None:
    """A process claims its own rescued job again, and then its first, frozen attempt wakes up."""
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        cut("clerk_fence", ("and c.attempt::text = v_attempt", ""))
    hand = new_worker("process")
    frozen = hand.take("ocr")
    expire(connection, frozen)
    engine.rescue_job(connection, frozen.id)
    again = hand.take("ocr")

    assert hand.finish(frozen) is not guarded
    assert unit(connection, items[0])["status"] == ("in_progress" if guarded else "processed")
    assert hand.finish(again, "failed", "PdfBroken") is guarded


@guarded
def test_fence_by_holder(
    connection: Connection, new_worker: NewWorker, cut: Callable[..., None], guarded: bool
) -> None:
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        cut("clerk_fence", ("and c.holder = current_setting('application_name')", ""))
    job = new_worker("holder").take("ocr")

    assert new_worker("stranger").finish(job) is not guarded
    assert unit(connection, items[0])["status"] == ("in_progress" if guarded else "processed")


@guarded
def test_fence_of_a_job_that_waits(
    connection: Connection, new_worker: NewWorker, cut: Callable[..., None], guarded: bool
) -> None:
    """Rescued and not taken up yet: finish_job would take the frozen worker's word for it."""
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        cut("clerk_fence", ("if v_attempt <> '' and old.status <> 'doing' then", "if false then"))
    hand = new_worker("process")
    frozen = hand.take("ocr")
    expire(connection, frozen)
    engine.rescue_job(connection, frozen.id)

    assert hand.finish(frozen) is not guarded
    assert unit(connection, items[0])["status"] == ("failed_retryable" if guarded else "processed")


@guarded
def test_fence_as_a_whole(connection: Connection, new_worker: NewWorker, guarded: bool) -> None:
    """A frozen worker's retry brings a job back to life that its successor has failed."""
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
def test_ledger_counts_a_unit_once(connection: Connection, cut: Callable[..., None], guarded: bool) -> None:
    """Retried by hand after its phase, and failed a second time."""
    add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        cut(
            "clerk_settle_unit",
            ("and l.job_id = p_job_id and l.status in ('pending', 'in_progress', 'failed_retryable')", ""),
        )
    hand = Worker(connection)
    job = hand.take("ocr")
    hand.finish(job, "failed", "PdfBroken")
    connection.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job.id])
    hand.finish(hand.take("ocr"), "failed", "PdfBroken")

    assert counters(connection, "ocr") == (1, 0, 1 if guarded else 2)
    assert {row[0] for row in broken_invariants(connection)} == (set() if guarded else {"I2"})


@guarded
def test_ledger_ignores_a_superseded_run(connection: Connection, cut: Callable[..., None], guarded: bool) -> None:
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        cut(
            "clerk_settle_unit",
            ("and l.run_id = p_run_id\n      and l.job_id = p_job_id", ""),
            ("or v_site.run_id is distinct from p_run_id", ""),
        )
    hand = Worker(connection)
    old = hand.take("ocr")
    start(connection, phase=2)
    hand.finish(old)

    assert unit(connection, items[0])["status"] == ("pending" if guarded else "processed")
    assert ignored(connection) == (["stale"] if guarded else [])


# The claim of the coordinator


@guarded
def test_claim_is_made_once(connection: Connection, cut: Callable[..., None], guarded: bool) -> None:
    """Two units believe to be the last one (a counter was wrong); the first one's coordinator runs already."""
    add_site(connection, documents=2)
    run = start(connection, phase=2)
    if not guarded:
        cut("clerk_settle_unit", ("and not v_site.coordinator_enqueued", ""))
    hand = Worker(connection)
    first, second = hand.take("ocr"), hand.take("ocr")
    connection.execute("update sites set ocr_completed = 1")
    hand.finish(first)
    hand.take("coordinator")
    hand.finish(second)

    assert coordinators(connection, run, 2) == (1 if guarded else 2)


@guarded
def test_claim_is_of_the_present_phase(connection: Connection, cut: Callable[..., None], guarded: bool) -> None:
    """A late member of OCR takes the flag of the next phase, and then nobody ends that."""
    add_site(connection, documents=2)
    run = start(connection, phase=2)
    if not guarded:
        cut("clerk_settle_unit", (" and clerk_phase(v_site.current_stage) = v_phase", ""))
    hand = Worker(connection)
    first, late = hand.take("ocr"), hand.take("ocr")
    connection.execute("update sites set ocr_completed = 1")
    hand.finish(first)
    hand.coordinate(hand.take("coordinator"))
    connection.execute("update sites set ocr_completed = 1")
    hand.finish(late)

    assert site(connection)["phase"] == 3
    assert site(connection)["coordinator_enqueued"] is not guarded
    while job := hand.fetch("compilation", "extraction"):
        hand.finish(job)
    assert coordinators(connection, run, 3) == (1 if guarded else 0)


@guarded
def test_advance_is_accepted_once(connection: Connection, cut: Callable[..., None], guarded: bool) -> None:
    add_site(connection, documents=2)
    run = start(connection)
    if not guarded:
        cut(
            "clerk_advance_phase",
            ("or clerk_phase(v_site.current_stage) is distinct from p_phase", ""),
            ("or not v_site.coordinator_enqueued then", "then"),
        )
    hand = Worker(connection)
    hand.finish(hand.take("fetch"))
    engine.advance_phase(connection, "town", run, 1)
    engine.advance_phase(connection, "town", run, 1)

    assert one(connection, "select count(*) from procrastinate_jobs where queue_name = 'ocr'") == (2 if guarded else 4)


# The lock order


@guarded
def test_site_before_ledger(
    connection: Connection, new_worker: NewWorker, cut: Callable[..., None], guarded: bool
) -> None:
    """With the ledger first, a finish and a cancel wait for each other."""
    add_site(connection, documents=2)
    start(connection, phase=2)
    if not guarded:
        locking = "    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;\n"
        cut(
            "clerk_settle_unit",
            (locking, ""),
            (
                "    if not found or v_site.run_id",
                f"    perform 1 from sites limit 0;\n{locking}\n    if v_site.run_id",
            ),
        )
    hand, operator = new_worker("worker"), new_worker("operator")
    hand.connection.execute("set deadlock_timeout = '100ms'")
    operator.connection.execute("set deadlock_timeout = '100ms'")
    job = hand.take("ocr")
    deadlocked: list[str] = []

    def finish() -> None:
        try:
            hand.finish(job)
        except psycopg.errors.DeadlockDetected:
            deadlocked.append("worker")

    operator.connection.execute("begin")
    one(operator.connection, "select 1 from sites where subdomain = 'town' for no key update")
    with meanwhile(finish):
        until(lambda: waits_for(connection, "worker"))
        try:
            engine.cancel_run(operator.connection, "town")
        except psycopg.errors.DeadlockDetected:
            deadlocked.append("operator")
        operator.connection.execute("rollback")
    assert len(deadlocked) == (0 if guarded else 1)


@guarded
def test_jobs_are_passed_over_under_the_site(
    connection: Connection, new_worker: NewWorker, cut: Callable[..., None], guarded: bool
) -> None:
    """Without SKIP LOCKED a whole-site move waits for the job of a worker that waits for the site."""
    add_site(connection, documents=2)
    start(connection, phase=2)
    if not guarded:
        cut("clerk_stop_jobs", ("for update skip locked", "for update"))
    hand, operator = new_worker("worker"), new_worker("operator")
    hand.connection.execute("set deadlock_timeout = '100ms'")
    operator.connection.execute("set deadlock_timeout = '100ms'")
    job = hand.take("ocr")
    deadlocked: list[str] = []

    def finish() -> None:
        try:
            hand.finish(job)
        except psycopg.errors.DeadlockDetected:
            deadlocked.append("worker")

    operator.connection.execute("begin")
    one(operator.connection, "select 1 from sites where subdomain = 'town' for no key update")
    with meanwhile(finish):
        until(lambda: waits_for(connection, "worker"))
        try:
            engine.cancel_run(operator.connection, "town")
        except psycopg.errors.DeadlockDetected:
            deadlocked.append("operator")
        operator.connection.execute("rollback")
    assert len(deadlocked) == (0 if guarded else 1)


# P0001: refused, or committed with the answer lost


@guarded
def test_own_result_is_recognised(connection: Connection, cut: Callable[..., None], guarded: bool) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        cut(
            "clerk_check_rejected_result",
            ("if exists (select from job_claims c", "if false and exists (select from job_claims c"),
        )
    hand = Worker(connection)
    job = hand.take("ocr")
    assert hand.finish(job)
    assert not hand.finish(job), "sent again, since the answer was lost"

    assert hand.whose(job, "succeeded") == ("mine" if guarded else "fenced")
    assert ignored(connection) == ([] if guarded else ["fenced"])


@guarded
def test_rescue_is_not_taken_for_the_own_retry(connection: Connection, cut: Callable[..., None], guarded: bool) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    if not guarded:
        cut("clerk_check_rejected_result", ("and c.settled_by = c.holder", ""))
    hand = Worker(connection)
    job = hand.take("ocr")
    expire(connection, job)
    engine.rescue_job(connection, job.id)
    assert not hand.retry(job)

    assert hand.whose(job, "todo") == ("fenced" if guarded else "mine")


@guarded
def test_a_fenced_worker_lives_on(
    connection: Connection, database: Url, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    """Without the handling of P0001 in the job manager the worker would end over it."""
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
            job = await manager.fetch_job(["ocr"], await manager.register_worker())
            assert job is not None
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
