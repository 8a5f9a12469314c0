"""Reconcilers beside each other and beside the workers: scenarios 17 and 18."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg

from clerk.pipeline import engine
from clerk.reconcile.apply import rescue_expired
from clerk.reconcile.repair import Repair
from tests.faults.pipeline import Pipeline, until
from tests.reconcile.repair_helpers import heal


def _together(url: str, *works: Callable[[psycopg.Connection[Any]], None]) -> None:
    """Each in a session of its own, all at the same time. The first error of any is raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[psycopg.Connection[Any]], None]) -> None:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                start.wait()
                work(connection)
        except BaseException as error:  # noqa: BLE001 (raised below, in the test's own thread)
            errors.append(error)

    threads = [threading.Thread(target=run, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _break_everything(pipeline: Pipeline) -> list[int]:
    """A dead worker's job, a unit without a job, counters that are off, and a coordinator that is gone; a site each."""
    for site in ("dead", "orphaned", "miscounted", "headless"):
        pipeline.site(site, documents=2)
    pipeline.will(ocr="wait:never")
    runs = [pipeline.start("dead", first_phase=2)]
    worker = pipeline.worker("ocr", concurrency=2)
    until(lambda: len(pipeline.said()) == 2, "both at work")
    worker.destroy()
    pipeline.lapse(*[said.job for said in pipeline.said()])
    pipeline.will(ocr="ok")

    runs += [pipeline.start(site, first_phase=2) for site in ("orphaned", "miscounted")]
    # As if the row had vanished in a restore: triggers do not see it.
    pipeline.connection.execute("set session_replication_role = replica")
    pipeline.connection.execute("delete from procrastinate_jobs where args ->> 'subdomain' = 'orphaned'")
    pipeline.connection.execute(
        "update sites set ocr_total = 7, ocr_completed = 3, ocr_failed = 2 where subdomain = 'miscounted'"
    )
    pipeline.connection.execute("set session_replication_role = origin")

    runs.append(pipeline.start("headless", first_phase=2))
    for (job,) in pipeline.all("select id from procrastinate_jobs where args ->> 'subdomain' = 'headless'"):
        pipeline.connection.execute("delete from procrastinate_jobs where id = %s", [job])
    pipeline.connection.execute("delete from procrastinate_jobs where queue_name = 'coordinator'")
    return runs


def test_two_reconcilers_at_once(pipeline: Pipeline) -> None:
    """Scenario 17. Every repair is made once, whoever makes it."""
    runs = _break_everything(pipeline)
    done: list[Repair] = []

    def reconcile(connection: psycopg.Connection[Any]) -> None:
        done.extend(heal(connection))

    def rescue(connection: psycopg.Connection[Any]) -> None:
        rescue_expired(connection)

    _together(pipeline.url, reconcile, reconcile, rescue, rescue)
    # Whoever found another at it left quietly; what that one had looked at before may be left for the next pass.
    reconcile(pipeline.connection)
    repairs = pipeline.all("select subdomain, found, count(*) from reconcile_log group by 1, 2 order by 1, 2")
    assert [count for _, _, count in repairs] == [1] * len(repairs)
    assert [site for site, _, _ in repairs] == ["dead", "dead", "headless", "miscounted", "orphaned", "orphaned"]
    assert pipeline.one("select count(*) from procrastinate_jobs where queue_name = 'coordinator'") == 1
    assert heal(pipeline.connection) == []

    pipeline.worker(concurrency=4)
    for run in runs[:3]:
        assert pipeline.until_ended(run) == "succeeded"
    assert pipeline.until_ended(runs[3]) == "failed"
    pipeline.check()


def test_reconcilers_and_finishing_workers_on_the_same_site(pipeline: Pipeline) -> None:
    """Scenario 18. They meet on the same rows for as long as the run goes: no deadlock, no repair of what is whole."""
    documents = pipeline.site(documents=150)
    for document in documents[::10]:
        pipeline.item("ocr", document, "transient", "ok")
    for document in documents[5::25]:
        pipeline.item("ocr", document, "permanent")
    run = pipeline.start()
    for _ in range(2):
        pipeline.worker(concurrency=6)

    def ended(connection: psycopg.Connection[Any]) -> bool:
        row = connection.execute("select outcome from pipeline_runs where run_id = %s", [run]).fetchone()
        return row is not None and row[0] is not None

    def reconcile(connection: psycopg.Connection[Any]) -> None:
        while not ended(connection):
            heal(connection)

    def rescue_and_recount(connection: psycopg.Connection[Any]) -> None:
        while not ended(connection):
            rescue_expired(connection)
            engine.recount_site(connection, "anytown")

    def operate(connection: psycopg.Connection[Any]) -> None:
        while not ended(connection):
            engine.redefer_coordinator(connection, "anytown")
            engine.pause_site(connection, "anytown", "a test")
            engine.resume_site(connection, "anytown")

    _together(pipeline.url, reconcile, reconcile, rescue_and_recount, operate)
    assert pipeline.until_ended(run) == "partial"
    assert pipeline.counters("ocr") == (150, 144, 6)
    stranded = "jobs are held back although nothing is paused"
    assert pipeline.all("select found from reconcile_log where found not like %s", f"%{stranded}") == []
    assert pipeline.one("select max(deferred_count) from pipeline_transitions") == 1
    pipeline.check()
