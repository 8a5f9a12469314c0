"""Measurements of `bin/bench engine`: worker processes, databases to measure in, and what is read from them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import procrastinate
import psutil
import psycopg

from clerk.db.connection import connect_to
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES
from tests.conftest import Databases, Url

Connection = psycopg.Connection[Any]
PROCESSES, CONCURRENCY = 2, 10
# By id, because the index on the queue also has all finished jobs.
_ALL_ENDED = (
    "select not exists (select from procrastinate_jobs"
    " where id > %s and queue_name = 'ocr' and status in ('todo', 'doing'))"
)
_WARM_UP_JOBS = 40


@dataclass(frozen=True)
class Measurement:
    jobs_per_second: float
    worker_cpu_ms: float
    """This and the next two are per job."""
    postgres_cpu_ms: float
    wal_bytes: float
    coordinator_ms: float | None = None
    """Median time from the end of a site's last unit until its coordinator runs."""


async def _no_op(**_: Any) -> None:
    """The job itself does nothing."""


def _no_op_in_thread(**_: Any) -> None:
    """Procrastinate runs a plain function in a thread."""


async def _sleep(**_: Any) -> None:
    await asyncio.sleep(0.02)


_BODIES = {"async": _no_op, "threads": _no_op_in_thread, "sleep": _sleep}


def work(variant: str, body: str, url: Url, queues: list[str]) -> None:
    """One worker process, until it is told to stop."""
    os.environ["DATABASE_URL"] = url
    app: procrastinate.App
    if variant == "stock":
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=12))
    else:
        from clerk.app import ClerkApp

        app = ClerkApp()
        # Stock has no periodic tasks either. Without any, a worker does not monitor its own heartbeat.
        app.periodic_registry.periodic_tasks.clear()
        app.periodic(cron="0 0 1 1 *")(app.task(name="new_year", queue="nowhere")(_no_op))
    for stage in STAGES:
        app.task(name=f"clerk.{stage}", queue=stage)(_BODIES[body])

    async def run() -> None:
        async with app.open_async():
            await app.run_worker_async(queues=queues, concurrency=CONCURRENCY)

    asyncio.run(run())


@contextmanager
def workers(variant: str, body: str, url: Url, queues: str, processes: int) -> Iterator[list[psutil.Process]]:
    command = [sys.executable, "-m", "tests.bench.engine", "--work", variant, body, url, queues]
    started = [subprocess.Popen(command) for _ in range(processes)]
    try:
        with connect_to(url) as connection:
            wait_for(connection, "select count(*) = %s from procrastinate_workers", [processes])
        yield [psutil.Process(process.pid) for process in started]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def wait_for(connection: Connection, query: str, arguments: Any = None, every: float = 0.05) -> None:
    deadline = time.monotonic() + 600
    while connection.execute(query.encode(), arguments).fetchone() != (True,):
        if time.monotonic() > deadline:
            raise SystemExit(f"did not become true within ten minutes: {query}")
        time.sleep(every)


def create_schema(connection: Connection, variant: str) -> None:
    if variant == "stock":
        connection.execute(procrastinate.schema.SchemaManager.get_schema())
    else:
        Migrator(connection, default_folder()).up()


def add_site(connection: Connection, subdomain: str, documents: int) -> None:
    # Recently updated, so that the scheduler does not start it.
    connection.execute("insert into sites (subdomain, updated_at) values (%s, now())", [subdomain])
    connection.execute(
        "insert into content_items (subdomain, kind, meeting, date)"
        " select %s, 'minutes', 'Council', date '1900-01-01' + n from generate_series(1, %s) n",
        [subdomain, documents],
    )


def add_jobs(connection: Connection, variant: str, sites: int, units: int) -> None:
    """`units` waiting jobs of the queue ocr for each new site, which no worker may take yet."""
    first = int(_one(connection, "select coalesce(max(id), 0) from procrastinate_jobs"))
    if variant == "stock":
        connection.execute(
            "insert into procrastinate_jobs (queue_name, task_name, args) select 'ocr', 'clerk.ocr',"
            " jsonb_build_object('subdomain', 'site' || s, 'run_id', 1, 'stage', 'ocr', 'content_item_id', n)"
            " from generate_series(1, %s) s, generate_series(1, %s) n",
            [sites, units],
        )
        connection.execute("update procrastinate_jobs set scheduled_at = 'infinity' where id > %s", [first])
        return
    for number in range(sites):
        with connection.transaction():
            add_site(connection, f"site{first}-{number}", units)
            engine.start_run(connection, f"site{first}-{number}", first_phase=2)
            connection.execute("update procrastinate_jobs set scheduled_at = 'infinity' where id > %s", [first])


def add_history(connection: Connection, units: int) -> None:
    """Finished jobs, with their events and claims, and processed units of earlier runs."""
    with connection.transaction():
        add_site(connection, "history", 0)
        run_id = _one(
            connection,
            "insert into pipeline_runs (subdomain, reason, started_at, ended_at, outcome)"
            " values ('history', 'history', now(), now(), 'succeeded') returning run_id",
        )
        connection.execute("set local session_replication_role = replica")
        connection.execute(
            "insert into content_items (subdomain, kind, meeting, date)"
            " select 'history', 'minutes', n::text, date '2000-01-01' from generate_series(1, %s) n",
            [units],
        )
        connection.execute(
            "insert into procrastinate_jobs (queue_name, task_name, status, attempts, args)"
            " select 'ocr', 'clerk.ocr', 'succeeded', 1, jsonb_build_object('subdomain', 'history', 'run_id',"
            " %s::bigint, 'stage', 'ocr', 'content_item_id', id) from content_items where subdomain = 'history'",
            [run_id],
        )
        connection.execute(
            "insert into procrastinate_events (job_id, type) select j.id, t.type from procrastinate_jobs j,"
            " unnest(array['deferred', 'started', 'succeeded']::procrastinate_job_event_type[]) t (type)"
        )
        connection.execute(
            "insert into job_claims (job_id, holder, attempt, lease_until, settled_as, settled_by)"
            " select id, 'history', 0, now(), 'succeeded', 'history' from procrastinate_jobs"
        )
        connection.execute(
            "insert into content_item_pipeline_state (content_item_id, pipeline, status, run_id, job_id, processed_at)"
            " select (args ->> 'content_item_id')::bigint, 'ocr', 'processed', %s, id, now() from procrastinate_jobs",
            [run_id],
        )
    connection.execute("vacuum analyze")


def measure(
    databases: Databases,
    variant: str,
    body: str,
    sites: int,
    units: int,
    *,
    history: int = 0,
    processes: int = PROCESSES,
) -> Measurement:
    url = databases.create()
    with connect_to(url) as connection:
        create_schema(connection, variant)
        if history:
            add_history(connection, history)
        add_jobs(connection, variant, sites, units)
        connection.execute("vacuum analyze")
        with workers(variant, body, url, "ocr,coordinator", processes) as started:
            measurement = measure_once(connection, variant, started, sites, units)
    databases.drop_all()
    return measurement


def measure_once(
    connection: Connection, variant: str, started: list[psutil.Process], sites: int, units: int
) -> Measurement:
    """Let running workers process the jobs of `add_jobs`, after other jobs that fill their caches."""
    last_job = _one(connection, "select max(id) from procrastinate_jobs")
    connection.execute(
        "insert into procrastinate_jobs (queue_name, task_name)"
        " select 'ocr', 'clerk.deploy' from generate_series(1, %s)",
        [_WARM_UP_JOBS],
    )
    wait_for(connection, _ALL_ENDED, [last_job])
    before = _usage(connection, started)
    last_event = _one(connection, "select max(id) from procrastinate_events")
    connection.execute(
        "with released as (update procrastinate_jobs set scheduled_at = null"
        " where status = 'todo' and scheduled_at = 'infinity' returning id)"
        ' select pg_notify(\'procrastinate_queue_v1#ocr\', \'{"type": "job_inserted", "job_id": 0}\')'
        " from (select count(*) from released) done"
    )
    wait_for(connection, _ALL_ENDED, [last_job - sites * units], every=0.2)
    used = [late - early for early, late in zip(before, _usage(connection, started), strict=True)]
    seconds, jobs = connection.execute(
        "select extract(epoch from max(e.at) - min(e.at))::float8, count(*) filter (where e.type = 'succeeded')"
        " from procrastinate_events e join procrastinate_jobs j on j.id = e.job_id"
        " where j.queue_name = 'ocr' and e.type in ('started', 'succeeded') and e.id > %s",
        [last_event],
    ).fetchone() or (0, 0)
    if jobs != sites * units:
        raise SystemExit(f"{jobs} of {sites * units} jobs succeeded")
    latency = None
    if variant == "clerk":
        latency = _check_coordinators(connection, sites)
    worker, postgres, wal = (amount / jobs for amount in used)
    return Measurement(jobs / seconds, 1000 * worker, 1000 * postgres, wal, latency)


def _check_coordinators(connection: Connection, sites: int) -> float:
    """Each site had one coordinator, and no invariant is violated. Returns the coordinators' median latency."""
    open_runs = "select not exists (select from pipeline_transitions where phase = 2 and advanced_at is null)"
    wait_for(connection, open_runs)
    violations = connection.execute("select * from invariant_violations").fetchall()
    coordinators = _one(
        connection,
        "select count(*) from procrastinate_jobs where task_name = 'clerk.coordinate' and args ->> 'phase' = '2'"
        " and (args ->> 'run_id')::bigint in (select run_id from sites order by run_id desc nulls last limit %s)",
        [sites],
    )
    if violations or coordinators != sites:
        raise SystemExit(f"invariants are violated: {violations}; {coordinators} coordinators instead of {sites}")
    return float(
        _one(
            connection,
            "select percentile_cont(0.5) within group (order by 1000 * extract(epoch from advanced_at - claimed_at))"
            " from (select * from pipeline_transitions where phase = 2 order by run_id desc limit %s) t",
            [sites],
        )
    )


def _usage(connection: Connection, processes: list[psutil.Process]) -> tuple[float, float, float]:
    """CPU seconds of workers and of the server, also of its processes that have ended; bytes of WAL."""
    postmaster = psutil.Process(int(_one(connection, "select pg_backend_pid()"))).parent()
    assert postmaster is not None
    times = [postmaster.cpu_times(), *(child.cpu_times() for child in postmaster.children(recursive=True))]
    ended = times[0].children_user + times[0].children_system
    return (
        sum(sum(process.cpu_times()[:2]) for process in processes),
        ended + sum(t.user + t.system for t in times),
        float(_one(connection, "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")),
    )


def fan_out(databases: Databases, units: int) -> tuple[float, float]:
    """Seconds to start a phase of so many documents, and of a plain batch_defer of as many jobs."""
    with connect_to(databases.create()) as connection:
        create_schema(connection, "clerk")
        add_site(connection, "town", units)
        connection.execute("vacuum analyze")
        started = time.monotonic()
        engine.start_run(connection, "town", first_phase=2)
        start_phase = time.monotonic() - started
    url = databases.create()
    with connect_to(url) as connection:
        create_schema(connection, "stock")
    app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=url))
    task = app.task(name="clerk.ocr", queue="ocr")(_no_op)
    arguments: list[Any] = [
        {"subdomain": "town", "run_id": 1, "stage": "ocr", "content_item_id": number} for number in range(units)
    ]
    with app.open():
        started = time.monotonic()
        task.batch_defer(*arguments)
        batch_defer = time.monotonic() - started
    databases.drop_all()
    return start_phase, batch_defer


def idle_latencies(databases: Databases, variant: str, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds on an idle system, from deferring a job to its recorded end, and from the end of a phase's last unit
    until the coordinator runs (clerk only)."""
    url = databases.create()
    jobs = []
    with connect_to(url) as connection:
        create_schema(connection, variant)
        for number in range(rounds if variant == "clerk" else 0):
            add_site(connection, f"site{number}", 0)
        with workers(variant, "async", url, "fetch,coordinator", 1):
            ended = "select status = 'succeeded' from procrastinate_jobs where id = %s"
            for number in range(rounds):
                started = time.monotonic()
                job_id = _one(
                    connection,
                    "insert into procrastinate_jobs (queue_name, task_name)"
                    " values ('fetch', 'clerk.fetch') returning id",
                )
                wait_for(connection, ended, [job_id], every=0.0005)
                jobs.append(1000 * (time.monotonic() - started))
                if variant == "clerk":
                    run_id = engine.start_run(connection, f"site{number}")
                    advanced = (
                        "select exists (select from pipeline_transitions where run_id = %s and advanced_at is not null)"
                    )
                    wait_for(connection, advanced, [run_id], every=0.001)
        coordinators = []
        if variant == "clerk":
            rows = connection.execute(
                "select 1000 * extract(epoch from advanced_at - claimed_at)::float8 from pipeline_transitions"
                " where phase = 1 and advanced_at is not null"
            )
            coordinators = [milliseconds for (milliseconds,) in rows]
    databases.drop_all()
    return jobs, coordinators


def _one(connection: Connection, query: str, arguments: Any = None) -> Any:
    row = connection.execute(query.encode(), arguments).fetchone()
    assert row is not None
    return row[0]
