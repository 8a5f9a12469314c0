"""Concurrent reconciliations, and reconciliation with running workers: scenarios 17 and 18."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg

from clerk.pipeline import engine
from clerk.reconcile.apply import rescue_expired
from clerk.reconcile.repair import Repair
from tests.faults.pipeline import Pipeline, until
from tests.reconcile.repair_helpers import repair_all


def _run_concurrently(url: str, *tasks: Callable[[psycopg.Connection[Any]], None]) -> None:
    """Each task in its own session. Raises the first error."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[psycopg.Connection[Any]], None]) -> None:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                start.wait()
                task(connection)
        except BaseException as error:  # noqa: BLE001 (raised below, in the test's thread)
            errors.append(error)

    threads = [threading.Thread(target=run, args=[task]) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _corrupt_four_sites(pipeline: Pipeline) -> list[int]:
    """A dead worker's job, a unit without a job, wrong counters, and a missing coordinator; one site each."""
    for site in ("dead", "orphaned", "miscounted", "uncoordinated"):
        pipeline.add_site(site, documents=2)
    pipeline.set_plan(ocr="wait:never")
    runs = [pipeline.start_run("dead", first_phase=2)]
    worker = pipeline.worker("ocr", concurrency=2)
    until(lambda: len(pipeline.steps()) == 2, "both running")
    worker.kill()
    pipeline.expire_leases(*[step.job for step in pipeline.steps()])
    pipeline.set_plan(ocr="ok")

    runs += [pipeline.start_run(site, first_phase=2) for site in ("orphaned", "miscounted")]
    # Without triggers, like a restore that lost the rows.
    pipeline.connection.execute("set session_replication_role = replica")
    pipeline.connection.execute("delete from procrastinate_jobs where args ->> 'subdomain' = 'orphaned'")
    pipeline.connection.execute(
        "update sites set ocr_total = 7, ocr_completed = 3, ocr_failed = 2 where subdomain = 'miscounted'"
    )
    pipeline.connection.execute("set session_replication_role = origin")

    runs.append(pipeline.start_run("uncoordinated", first_phase=2))
    for (job,) in pipeline.rows("select id from procrastinate_jobs where args ->> 'subdomain' = 'uncoordinated'"):
        pipeline.connection.execute("delete from procrastinate_jobs where id = %s", [job])
    pipeline.connection.execute("delete from procrastinate_jobs where queue_name = 'coordinator'")
    return runs


def test_two_concurrent_reconciliations(pipeline: Pipeline) -> None:
    """Scenario 17. Every repair is applied once."""
    runs = _corrupt_four_sites(pipeline)
    done: list[Repair] = []

    def reconcile(connection: psycopg.Connection[Any]) -> None:
        done.extend(repair_all(connection))

    def rescue(connection: psycopg.Connection[Any]) -> None:
        rescue_expired(connection)

    _run_concurrently(pipeline.url, reconcile, reconcile, rescue, rescue)
    # A reconciliation exits if another is in progress, so some repairs may be left for the next one.
    reconcile(pipeline.connection)
    repairs = pipeline.rows("select subdomain, found, count(*) from reconcile_log group by 1, 2 order by 1, 2")
    assert [count for _, _, count in repairs] == [1] * len(repairs)
    assert [site for site, _, _ in repairs] == ["dead", "dead", "miscounted", "orphaned", "orphaned", "uncoordinated"]
    assert pipeline.scalar("select count(*) from procrastinate_jobs where queue_name = 'coordinator'") == 1
    assert repair_all(pipeline.connection) == []

    pipeline.worker(concurrency=4)
    for run in runs[:3]:
        assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.wait_for_end(runs[3]) == "failed"
    pipeline.check_invariants()


def test_reconciliation_of_a_site_with_running_workers(pipeline: Pipeline) -> None:
    """Scenario 18. They lock the same rows during the whole run: no deadlock, and no unnecessary repair."""
    documents = pipeline.add_site(documents=150)
    for document in documents[::10]:
        pipeline.plan_item("ocr", document, "transient", "ok")
    for document in documents[5::25]:
        pipeline.plan_item("ocr", document, "permanent")
    run = pipeline.start_run()
    for _ in range(2):
        pipeline.worker(concurrency=6)

    def has_ended(connection: psycopg.Connection[Any]) -> bool:
        row = connection.execute("select outcome from pipeline_runs where run_id = %s", [run]).fetchone()
        return row is not None and row[0] is not None

    def reconcile(connection: psycopg.Connection[Any]) -> None:
        while not has_ended(connection):
            repair_all(connection)

    def rescue_and_recount(connection: psycopg.Connection[Any]) -> None:
        while not has_ended(connection):
            rescue_expired(connection)
            engine.recount_site(connection, "anytown")

    def operate(connection: psycopg.Connection[Any]) -> None:
        while not has_ended(connection):
            engine.redefer_coordinator(connection, "anytown")
            engine.pause_site(connection, "anytown", "a test")
            engine.resume_site(connection, "anytown")

    _run_concurrently(pipeline.url, reconcile, reconcile, rescue_and_recount, operate)
    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.counters("ocr") == (150, 144, 6)
    wrongly_paused = "jobs are paused although nothing is"
    assert pipeline.rows("select found from reconcile_log where found not like %s", f"%{wrongly_paused}") == []
    assert pipeline.scalar("select max(deferred_count) from pipeline_transitions") == 1
    pipeline.check_invariants()
