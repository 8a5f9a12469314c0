"""Turns: in which order workers fetch the jobs of several sites."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clerk.pipeline import engine
from tests.engine.helpers import (
    Connection,
    Job,
    Worker,
    add_site,
    broken_invariants,
    drain,
    expire,
    finish_phase,
    one,
    rows,
    site,
    waiting_problems,
)

SHARED = ("ocr", "compilation", "extraction")
"""Queues of one worker process."""


def start_ocr(connection: Connection, subdomain: str, documents: int, weight: int = 1) -> int:
    """A run that begins with OCR."""
    add_site(connection, subdomain, documents)
    connection.execute("update sites set weight = %s where subdomain = %s", [weight, subdomain])
    return engine.start_run(connection, subdomain, "test", first_phase=2)


def sites_in_order(worker: Worker, jobs: int, *queues: str) -> list[str]:
    """Fetch and finish jobs; returns their sites."""
    order = []
    for _ in range(jobs):
        job = worker.take(*(queues or ("ocr",)))
        order.append(str(job.args["subdomain"]))
        assert worker.finish(job)
    return order


@pytest.fixture
def worker(connection: Connection) -> Worker:
    return Worker(connection)


def test_a_small_site_does_not_wait_for_the_large_one(connection: Connection, worker: Worker) -> None:
    start_ocr(connection, "city", 200)
    sites_in_order(worker, 20)
    start_ocr(connection, "town", 3)
    assert sites_in_order(worker, 7) == ["city", "town"] * 3 + ["city"]


def test_a_site_that_joins_has_no_advantage_over_those_that_wait(connection: Connection, worker: Worker) -> None:
    start_ocr(connection, "city", 200)
    start_ocr(connection, "town", 200)
    sites_in_order(worker, 100)
    start_ocr(connection, "village", 200)
    assert sorted(sites_in_order(worker, 30)) == ["city"] * 10 + ["town"] * 10 + ["village"] * 10


def test_weight_is_the_number_of_jobs_per_turn(connection: Connection, worker: Worker) -> None:
    start_ocr(connection, "city", 30, weight=3)
    start_ocr(connection, "town", 10)
    order = sites_in_order(worker, 20)
    assert [order[n : n + 4].count("city") for n in range(0, 20, 4)] == [3] * 5


def test_priority_comes_before_turns(connection: Connection, worker: Worker) -> None:
    start_ocr(connection, "city", 5)
    start_ocr(connection, "town", 5)
    connection.execute("update procrastinate_jobs set priority = 1 where args ->> 'subdomain' = 'town'")
    assert sites_in_order(worker, 6) == ["town"] * 5 + ["city"]


def test_a_new_weight_applies_to_waiting_jobs(connection: Connection, worker: Worker) -> None:
    start_ocr(connection, "city", 100)
    start_ocr(connection, "town", 100)
    sites_in_order(worker, 40)
    connection.execute("update sites set weight = 4 where subdomain = 'town'")
    order = sites_in_order(worker, 20)
    assert (order.count("city"), order.count("town")) == (4, 16)


def retried(worker: Worker, job: Job) -> None:
    assert worker.retry(job)


def rescued(worker: Worker, job: Job) -> None:
    expire(worker.connection, job)
    assert one(worker.connection, "select clerk_rescue_job(%s)", [job.id]) == "rescued"


def retried_by_hand(worker: Worker, job: Job) -> None:
    assert worker.finish(job, "failed", "PdfBroken")
    worker.connection.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job.id])


@pytest.mark.parametrize("give_back", [retried, rescued, retried_by_hand])
def test_a_job_that_returns_to_the_queue_goes_first(
    connection: Connection, worker: Worker, give_back: Callable[[Worker, Job], None]
) -> None:
    """Also if its site and others have started many jobs since."""
    start_ocr(connection, "city", 50)
    returning = [worker.take("ocr") for _ in range(10)][-1]
    start_ocr(connection, "town", 50)
    sites_in_order(worker, 20)
    give_back(worker, returning)
    assert worker.take("ocr").id == returning.id


def test_a_job_that_returned_is_not_where_new_sites_begin(connection: Connection, worker: Worker) -> None:
    start_ocr(connection, "city", 100)
    returning = worker.take("ocr")
    sites_in_order(worker, 40)
    retried(worker, returning)
    start_ocr(connection, "town", 100)
    assert worker.take("ocr").id == returning.id
    assert sites_in_order(worker, 10).count("town") == 5


@pytest.mark.parametrize("paused", ["site", "queue"])
def test_a_resumed_site_shares_from_then_on(connection: Connection, worker: Worker, paused: str) -> None:
    start_ocr(connection, "city", 100)
    if paused == "site":
        engine.pause_site(connection, "city", "test")
    else:
        engine.pause_queue(connection, "ocr", "test")
    start_ocr(connection, "town", 100)
    if paused == "site":
        assert sites_in_order(worker, 30) == ["town"] * 30
        engine.resume_site(connection, "city")
    else:
        assert worker.fetch("ocr") is None
        engine.resume_queue(connection, "ocr")
    order = sites_in_order(worker, 20)
    assert (order.count("city"), order.count("town")) == (10, 10)
    assert drain(worker)
    assert waiting_problems(connection) == []


def test_a_site_that_starts_while_paused_shares_when_it_is_resumed(connection: Connection, worker: Worker) -> None:
    start_ocr(connection, "city", 60)
    add_site(connection, "town", 60)
    engine.pause_site(connection, "town", "test")
    engine.start_run(connection, "town", "test", first_phase=2)
    assert sites_in_order(worker, 20) == ["city"] * 20
    engine.resume_site(connection, "town")
    assert sites_in_order(worker, 20).count("town") == 10


def test_retried_documents_take_turns(connection: Connection, worker: Worker) -> None:
    """An operator retries many failed documents of a site."""
    start_ocr(connection, "city", 61)
    for _ in range(60):
        worker.finish(worker.take("ocr"), "failed", "PdfBroken")
    start_ocr(connection, "town", 60)
    sites_in_order(worker, 10)
    engine.retry_failed(connection, "city")
    order = sites_in_order(worker, 40)
    assert 18 <= order.count("town") <= 22


def test_documents_whose_jobs_were_lost_take_turns(connection: Connection, worker: Worker) -> None:
    """Reconciliation defers a new job for each, one by one."""
    start_ocr(connection, "city", 60)
    start_ocr(connection, "town", 60)
    sites_in_order(worker, 20)
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute("delete from procrastinate_jobs where status = 'todo' and args ->> 'subdomain' = 'city'")
    for (item,) in rows(connection, "select content_item_id from orphaned_units order by 1"):
        assert one(connection, "select clerk_redefer_unit(%s, 'ocr')", [item])
    order = sites_in_order(worker, 40)
    assert 18 <= order.count("town") <= 22
    drain(worker)
    assert broken_invariants(connection) == []


def test_later_stages_take_turns_with_ocr_of_others(connection: Connection, worker: Worker) -> None:
    """Of a worker that processes several queues. One job per site needs no turn."""
    start_ocr(connection, "city", 200)
    start_ocr(connection, "town", 10)
    sites_in_order(worker, 20, *SHARED)
    worker.coordinate(worker.take("coordinator"))
    assert site(connection, "town")["current_stage"] == "extraction"
    first = worker.take(*SHARED)
    assert (first.args["subdomain"], first.queue) == ("town", "compilation")
    order = sites_in_order(worker, 20, *SHARED)
    assert (order.count("city"), order.count("town")) == (10, 10)


def test_turns_begin_again_when_no_job_waits(connection: Connection, worker: Worker) -> None:
    start_ocr(connection, "city", 5)
    finish_phase(worker)
    drain(worker)
    start_ocr(connection, "town", 2)
    found = rows(connection, "select turn from procrastinate_jobs where status = 'todo' order by id")
    assert found == [(1,), (1_000_001,)]


def test_numbers_of_a_superseded_run_do_not_delay_the_next(connection: Connection, worker: Worker) -> None:
    start_ocr(connection, "city", 50)
    start_ocr(connection, "town", 50)
    sites_in_order(worker, 10)
    engine.start_run(connection, "city", "again", supersede=True, first_phase=2)
    assert sites_in_order(worker, 20).count("city") == 10


def test_a_stock_worker_processes_the_same_jobs(connection: Connection, worker: Worker) -> None:
    """Procrastinate's own query fetches by priority and age, and ignores turns."""
    start_ocr(connection, "city", 3)
    start_ocr(connection, "town", 1)
    stock = "select args ->> 'subdomain' from procrastinate_fetch_job_v2(array['ocr'], %s)"
    assert [one(connection, stock, [worker.number]) for _ in range(4)] == ["city"] * 3 + ["town"]


def test_weights_out_of_range_are_refused(connection: Connection) -> None:
    add_site(connection)
    for weight in (0, 101):
        with pytest.raises(Exception, match="sites_weight_check"):
            connection.execute("update sites set weight = %s", [weight])
