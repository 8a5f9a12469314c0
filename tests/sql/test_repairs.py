"""Leases, rescue, repairs and retention."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from clerk.pipeline import engine
from tests.engine.helpers import (
    Connection,
    Worker,
    add_site,
    broken_invariants,
    coordinators,
    counters,
    drain,
    expire,
    ignored,
    job_status,
    next_job_of,
    one,
    rows,
    run_with,
    site,
    start,
    unit,
)
from tests.reconcile.repair_helpers import repair_all


def test_rescue_gives_another_attempt_until_they_are_used_up(connection: Connection) -> None:
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    for attempt in range(3):
        job = worker.take("ocr")
        assert job.attempts == attempt
        assert engine.rescue_job(connection, job.id) == "left alone"
        expire(connection, job)
        assert broken_invariants(connection)[0][0] == "I7"
        assert engine.rescue_job(connection, job.id) == ("rescued" if attempt < 2 else "failed")
        assert engine.rescue_job(connection, job.id) == "left alone"
        assert not worker.finish(job), "its lease has expired"
        assert worker.check_rejected(job, "todo") == "fenced", "a rescue is not the holder's own retry"
        status = unit(connection, items[0])["status"]
        assert status == ("failed_retryable" if attempt < 2 else "failed_terminal")
    assert unit(connection, items[0])["error_code"] == "WorkerLost"
    assert unit(connection, items[0])["attempt_count"] == 3
    assert ignored(connection) == ["fenced"] * 3
    assert broken_invariants(connection) == []


def test_rescue_of_a_job_whose_queueing_lock_is_taken(connection: Connection) -> None:
    """A periodic task: the job of the next minute already has the queueing lock."""
    worker = Worker(connection)
    insert = (
        "insert into procrastinate_jobs (queue_name, task_name, queueing_lock)"
        " values ('coordinator', 'clerk.schedule', 'clerk.schedule')"
    )
    connection.execute(insert)
    job = worker.take("coordinator")
    connection.execute(insert)
    expire(connection, job)
    assert len(repair_all(connection)) == 1
    assert job_status(connection, job.id) == "failed"
    assert repair_all(connection) == []


def test_rescue_of_a_job_with_an_abort_request_aborts_it(connection: Connection) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    job = worker.take("ocr")
    engine.cancel_run(connection, "town")
    expire(connection, job)
    assert engine.rescue_job(connection, job.id) == "failed"
    assert job_status(connection, job.id) == "aborted"
    assert broken_invariants(connection) == []


def test_job_without_a_claim_is_rescued(connection: Connection) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    job = worker.take("ocr")
    connection.execute("delete from job_claims where job_id = %s", [job.id])
    assert engine.rescue_job(connection, job.id) == "rescued"


def test_leases_and_progress(connection: Connection, new_worker: Callable[[str], Worker]) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    holder, other = new_worker("holder"), new_worker("other")
    job = holder.take("ocr")

    def renew(worker: Worker) -> bool:
        return bool(rows(worker.connection, "select clerk_renew_leases(array[%s::bigint])", [job.id]))

    assert renew(holder)
    assert not renew(other)
    expire(connection, job)
    assert engine.report_progress(holder.connection, job.id, job.attempts, 3, 12)
    assert rows(
        connection, "select progress, progress_total, lease_until > now() from job_claims where job_id = %s", [job.id]
    ) == [(3, 12, True)]
    assert not engine.report_progress(other.connection, job.id, job.attempts, 4, 12)
    assert not engine.report_progress(holder.connection, job.id, job.attempts + 1, 4, 12)
    connection.execute("update job_claims set claimed_at = now() - interval '5 hours' where job_id = %s", [job.id])
    assert not renew(holder), "past the time limit of its stage"
    assert not engine.report_progress(holder.connection, job.id, job.attempts, 5, None)
    holder.finish(job)
    assert not renew(holder)


def test_unit_without_a_job_gets_one(connection: Connection) -> None:
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    # Deleted without triggers.
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute("delete from procrastinate_jobs where status = 'todo'")
    assert engine.redefer_unit(connection, items[0], "ocr")
    assert not engine.redefer_unit(connection, items[0], "ocr")
    drain(Worker(connection))
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


@pytest.mark.parametrize("how", ["deleted", "failed", "cancelled"])
def test_missing_coordinator_is_deferred_again(connection: Connection, how: str) -> None:
    add_site(connection, documents=1)
    run = start(connection, phase=2)
    worker = Worker(connection)
    worker.finish(worker.take("ocr"))
    assert not engine.redefer_coordinator(connection, "town"), "it waits"
    job = worker.take("coordinator")
    assert not engine.redefer_coordinator(connection, "town"), "it runs"
    if how == "cancelled":
        worker.retry(job)
        connection.execute("select procrastinate_cancel_job_v1(%s, false, false)", [job.id])
    elif how == "failed":
        worker.finish(job, "failed")
    else:
        connection.execute("delete from procrastinate_jobs where id = %s", [job.id])
    assert engine.redefer_coordinator(connection, "town")
    deferred = "select deferred_count from pipeline_transitions where run_id = %s and phase = 2"
    assert rows(connection, deferred, [run]) == [(2,)]
    drain(worker)
    assert one(connection, "select count(*) from pipeline_runs where outcome = 'succeeded'") == 1
    assert broken_invariants(connection) == []


def test_counters_are_set_to_the_ledger(connection: Connection) -> None:
    add_site(connection, documents=3)
    run = start(connection, phase=2)
    worker = Worker(connection)
    worker.finish(worker.take("ocr"))
    connection.execute("update sites set ocr_completed = 0, ocr_failed = 7, fetch_total = 9")
    assert {row[0] for row in broken_invariants(connection)} == {"I2"}
    engine.recount_site(connection, "town")
    assert counters(connection, "ocr") == (3, 1, 0)
    assert broken_invariants(connection) == []
    while job := worker.fetch("ocr"):
        connection.execute("update sites set ocr_completed = 0")
        worker.finish(job)
    assert coordinators(connection, run, 2) == 0, "the counters were not complete"
    engine.recount_site(connection, "town")
    assert coordinators(connection, run, 2) == 1
    assert broken_invariants(connection) == []


def test_retention(connection: Connection) -> None:
    add_site(connection, documents=3)
    worker = Worker(connection)
    run_with(worker)
    finished = one(connection, "select count(*) from procrastinate_jobs")
    add_site(connection, "active", documents=2)
    run = engine.start_run(connection, "active")
    worker.finish(next_job_of(worker, run))
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    assert engine.remove_finished_jobs(connection, datetime.now(UTC) - timedelta(days=1)) == 0
    removed = []
    while batch := engine.remove_finished_jobs(connection, tomorrow, 4):
        removed.append(batch)

    assert sum(removed) == finished
    assert max(removed) == 4
    kept = "select count(*) from procrastinate_jobs where status = 'succeeded'"
    assert one(connection, kept) == 1, "that of the active run"
    assert one(connection, "select count(*) from job_claims") == 1
    drain(worker)
    assert site(connection, "active")["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


def test_retention_deletes_jobs_that_were_paused(connection: Connection) -> None:
    add_site(connection, documents=1)
    worker = Worker(connection)
    engine.pause_site(connection, "town", "me")
    engine.start_run(connection, "town")
    engine.resume_site(connection, "town")
    drain(worker)
    engine.remove_finished_jobs(connection, datetime.now(UTC) + timedelta(days=1))
    assert one(connection, "select count(*) from procrastinate_jobs") == 0
