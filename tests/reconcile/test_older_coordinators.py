"""Several coordinators of the same phase: reconciliation deferred one again, and an operator retried an older one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from clerk.pipeline import engine
from clerk.reconcile.plan import make_plan
from tests.engine.helpers import (
    Connection,
    Worker,
    add_site,
    drain,
    expire,
    rows,
    site,
    start,
    waiting_problems,
)
from tests.reconcile.repair_helpers import repair_all

NOW = timedelta(0)


def coordinators_of_one_phase(connection: Connection, worker: Worker, ended: int) -> list[int]:
    """Coordinators of the same phase, each deferred again by reconciliation. All have failed."""
    add_site(connection, documents=1)
    start(connection, phase=2)
    worker.finish(worker.take("ocr"))
    jobs = []
    for number in range(ended):
        if number:
            assert [repair.kind for repair in repair_all(connection)] == ["coordinator"]
        job = worker.take("coordinator")
        worker.finish(job, "failed")
        jobs.append(job.id)
    return jobs


def retry_by_hand(connection: Connection, job_id: int) -> None:
    connection.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job_id])


def open_coordinator(connection: Connection) -> tuple[Any, ...]:
    return rows(connection, "select job_id, state from open_coordinators")[0]


def test_an_older_coordinator_that_was_retried_by_hand_is_the_coordinator(connection: Connection) -> None:
    worker = Worker(connection)
    older, newer = coordinators_of_one_phase(connection, worker, ended=2)
    assert open_coordinator(connection) == (None, "orphaned")
    assert waiting_problems(connection) == ["phase 2 is complete and has no coordinator"]

    retry_by_hand(connection, older)
    assert older < newer
    assert open_coordinator(connection) == (older, "waiting")
    assert waiting_problems(connection) == []
    assert repair_all(connection) == []

    job = worker.take("coordinator")
    assert job.id == older
    assert open_coordinator(connection) == (older, "running")
    assert waiting_problems(connection) == []
    assert repair_all(connection) == []

    worker.coordinate(job)
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"


def test_a_run_whose_older_coordinator_runs_is_not_abandoned(connection: Connection) -> None:
    worker = Worker(connection)
    oldest, *_ = coordinators_of_one_phase(connection, worker, ended=4)
    run = site(connection)["run_id"]
    assert [repair.kind for repair in make_plan(connection, None, threshold=NOW)] == ["abandoned"]

    retry_by_hand(connection, oldest)
    job = worker.take("coordinator")
    assert job.id == oldest
    assert make_plan(connection, None, threshold=NOW) == []
    assert not engine.abandon_run(connection, "town", run, "test")

    worker.coordinate(job)
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"


def test_a_running_coordinator_is_shown_before_one_that_waits_and_a_lost_one_after_it(connection: Connection) -> None:
    """A retry by hand while another coordinator of the phase runs. The second advance is stale."""
    worker = Worker(connection)
    older, newer = coordinators_of_one_phase(connection, worker, ended=2)
    retry_by_hand(connection, newer)
    running = worker.take("coordinator")
    retry_by_hand(connection, older)
    assert open_coordinator(connection) == (newer, "running")
    expire(connection, running)
    assert open_coordinator(connection) == (older, "waiting")
    assert worker.coordinate(running) == "started phase 3"
    assert worker.coordinate(worker.take("coordinator")) == "stale"
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
