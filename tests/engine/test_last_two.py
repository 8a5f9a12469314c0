"""The last two units of a phase end at the same time, thousands of times: exactly one coordinator each time.

Two threads with a connection each wait at a barrier before every finish. In half of the cases the two units are of one
stage, in the other half they are the last of compilation and the last of extraction. They are reported one by one,
and in batches in which the last units of several sites end in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread

import pytest

from tests.engine.helpers import Connection, Job, Worker, broken_invariants, one, rows

ROUNDS, ROUNDS_LONG = 2_000, 10_000
CHUNK = 500


def prepare(connection: Connection, chunk: int, towns: int) -> None:
    """Sites whose current phase has two open units: two documents in OCR, or compilation and one extraction."""
    connection.execute(
        "insert into sites (subdomain, scraper) select format('town-%%s-%%s', %s::integer, n), 'x'"
        " from generate_series(1, %s) n",
        [chunk, towns],
    )
    connection.execute(
        "insert into content_items (subdomain, kind, meeting, date)"
        " select s.subdomain, 'minutes', 'Council', date '2000-01-01' + n from sites s, generate_series(1, 2) n"
        " where s.run_id is null and (n = 1 or split_part(s.subdomain, '-', 3)::integer % 2 = 0)"
    )
    # Sites with odd numbers have one document, which is processed.
    connection.execute(
        "insert into content_item_pipeline_state (content_item_id, pipeline, status, processed_at)"
        " select i.id, 'ocr', 'processed', now() from content_items i join sites s using (subdomain)"
        " where s.run_id is null and split_part(s.subdomain, '-', 3)::integer % 2 = 1"
    )
    connection.execute(
        "select clerk_start_run(subdomain,"
        " p_first_phase => 2 + split_part(subdomain, '-', 3)::integer % 2) from sites where run_id is null"
    )


def pairs(connection: Connection, first: Worker, second: Worker) -> list[tuple[Job, Job]]:
    """The two open jobs of every site, one claimed by each worker."""
    for worker in (first, second):
        worker.connection.execute(
            "update procrastinate_jobs set status = 'doing', worker_id = %s where id in ("
            " select min(id) from procrastinate_jobs where status = 'todo'"
            " and queue_name in ('ocr', 'compilation', 'extraction') group by args ->> 'subdomain')",
            [worker.number],
        )
    found = rows(
        connection,
        "select array_agg(id order by id) from procrastinate_jobs where status = 'doing' group by args ->> 'subdomain'",
    )
    assert all(len(ids) == 2 for (ids,) in found)
    return [(Job(ids[0], 0, "ocr", {}), Job(ids[1], 0, "ocr", {})) for (ids,) in found]


def one_by_one(worker: Worker, jobs: list[Job], number: int) -> list[int]:
    rejected = []
    for place, job in enumerate(jobs, number):
        # Every combination of failures and successes.
        status = "failed" if place % (5 if worker.name == "first" else 3) == 0 else "succeeded"
        if not worker.finish(job, status):
            rejected.append(job.id)
    return rejected


def in_a_batch(worker: Worker, jobs: list[Job], number: int) -> list[int]:
    # The two batches name the sites in opposite orders.
    ordered = jobs if worker.name == "first" else jobs[::-1]
    accepted = worker.finish_all(ordered)
    return [job.id for job in jobs if job.id not in accepted]


@pytest.mark.timeout(3600)  # with --long
@pytest.mark.parametrize(("report", "size"), [(one_by_one, 1), (in_a_batch, 7)], ids=["one by one", "in batches"])
def test_one_coordinator_each_time(
    connection: Connection,
    new_worker: Callable[[str], Worker],
    request: pytest.FixtureRequest,
    report: Callable[[Worker, list[Job], int], list[int]],
    size: int,
) -> None:
    rounds = ROUNDS_LONG if request.config.getoption("--long") else ROUNDS
    first, second = new_worker("first"), new_worker("second")
    barrier = Barrier(2, timeout=60)
    rejected: list[int] = []

    def finish_all(worker: Worker, jobs: list[Job]) -> None:
        for number in range(0, len(jobs), size):
            barrier.wait()
            rejected.extend(report(worker, jobs[number : number + size], number))

    for chunk in range(rounds // CHUNK):
        prepare(connection, chunk, CHUNK)
        jobs = pairs(connection, first, second)
        assert len(jobs) == CHUNK
        threads = [
            Thread(target=finish_all, args=(first, [pair[0] for pair in jobs])),
            Thread(target=finish_all, args=(second, [pair[1] for pair in jobs])),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        connection.execute("vacuum analyze procrastinate_jobs, sites")

    assert rejected == []
    coordinators = rows(
        connection,
        "select count(*), count(distinct args ->> 'run_id') from procrastinate_jobs"
        " where task_name = 'clerk.coordinate'",
    )
    assert coordinators == [(rounds, rounds)]
    assert one(connection, "select count(*) from pipeline_transitions where deferred_count = 1") == rounds
    assert one(connection, "select count(*) from sites where coordinator_enqueued") == rounds
    assert broken_invariants(connection) == []
