"""Cost of the accounting: no-op jobs per second of one worker process in three variants.

stock      Procrastinate with default settings, in a database with only its schema
connector  the same database, clerk's connector
complete   clerk's worker in clerk's database: claims, ledger, counters, coordinators

Also measures the time from the end of the last unit to the start of the coordinator. Only ratios within one run are
meaningful.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import procrastinate
import psycopg

from clerk.cli.progress_reporter import ProgressReporter
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES
from tests.conftest import Databases, Url, running

VARIANTS = ("stock", "connector", "complete")
SETTINGS = {"fsync": "on", "max_wal_size": "2GB", "checkpoint_timeout": "30min"}


async def no_op(**_: Any) -> None:
    """The job itself does nothing."""


def make_app(variant: str, url: Url) -> procrastinate.App:
    if variant == "stock":
        return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=12))
    if variant == "connector":
        from clerk.pipeline import connector

        # This database intentionally lacks clerk's schema.
        connector.require_known_schema = lambda *_: None  # type: ignore[attr-defined]
        return procrastinate.App(connector=connector.ClerkConnector())
    from clerk.app import ClerkApp

    return ClerkApp()


def work(variant: str, url: Url) -> None:
    """One worker process: runs until the queue is empty."""
    os.environ["DATABASE_URL"] = url
    app = make_app(variant, url)
    for stage in STAGES:
        app.task(name=f"clerk.{stage}", queue=stage)(no_op)

    async def run() -> None:
        async with app.open_async():
            await app.run_worker_async(queues=["ocr"], concurrency=10, wait=False, listen_notify=False)

    asyncio.run(run())


def prepare(url: Url, variant: str, sites: int, units: int) -> None:
    """Insert `units` jobs into the queue ocr, distributed over `sites`."""
    if variant != "complete":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(procrastinate.schema.SchemaManager.get_schema())
            connection.execute(
                "insert into procrastinate_jobs (queue_name, task_name, args) select 'ocr', 'clerk.ocr',"
                " jsonb_build_object('subdomain', 'site' || n %% %s, 'run_id', 1, 'stage', 'ocr', 'content_item_id', n)"
                " from generate_series(1, %s) n",
                [sites, units],
            )
            connection.execute("analyze")
        return
    with connect_to(url) as connection:
        Migrator(connection, default_folder()).up()
        for number in range(sites):
            subdomain = f"site{number}"
            connection.execute("insert into sites (subdomain) values (%s)", [subdomain])
            connection.execute(
                "insert into content_items (subdomain, kind, meeting, date)"
                " select %s, 'minutes', 'Council', date '2000-01-01' + n from generate_series(1, %s) n",
                [subdomain, units // sites],
            )
            engine.start_run(connection, subdomain, first_phase=2)
        connection.execute("analyze")


def jobs_per_second(url: Url, units: int) -> float:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select count(*) filter (where e.type = 'succeeded'), extract(epoch from max(e.at) - min(e.at))"
            " from procrastinate_events e join procrastinate_jobs j on j.id = e.job_id"
            " where j.queue_name = 'ocr' and e.type in ('started', 'succeeded')"
        ).fetchone()
    assert row is not None
    if row[0] != units:
        raise SystemExit(f"only {row[0]} of {units} jobs succeeded")
    return units / float(row[1])


def measure(databases: Databases, variant: str, sites: int, units: int) -> float:
    url = databases.create()
    prepare(url, variant, sites, units)
    subprocess.run([sys.executable, "-m", "tests.bench.engine", "--work", variant, url], check=True)
    if variant == "complete":
        with psycopg.connect(url) as connection:
            violations = connection.execute("select * from invariant_violations").fetchall()
            waiting = connection.execute("select count(*) from pipeline_transitions").fetchone()
        if violations or waiting != (sites,):
            raise SystemExit(f"invariants are violated: {violations}; {waiting} transitions instead of {sites}")
    result = jobs_per_second(url, units)
    databases.drop_all()
    return result


def coordinator_latency(databases: Databases, rounds: int) -> list[float]:
    """Milliseconds from the end of the last unit to the start of the coordinator, with a listening worker."""
    url = databases.create()
    with connect_to(url) as connection:
        Migrator(connection, default_folder()).up()
        for number in range(rounds):
            # Recently updated, so that the scheduler does not start them.
            connection.execute("insert into sites (subdomain, updated_at) values (%s, now())", [f"site{number}"])
        worker = subprocess.Popen([sys.executable, "-m", "tests.bench.engine", "--work", "listen", url])
        try:
            for number in range(rounds):
                run_id = engine.start_run(connection, f"site{number}")
                while not connection.execute(
                    "select 1 from pipeline_transitions where run_id = %s and phase = 1 and advanced_at is not null",
                    [run_id],
                ).fetchone():
                    pass
            rows = connection.execute(
                "select 1000 * extract(epoch from started.at - ended.at) from pipeline_transitions t"
                " join procrastinate_jobs c on c.id = t.coordinator_job_id"
                " join procrastinate_events started on started.job_id = c.id and started.type = 'started'"
                " join procrastinate_jobs m on m.args ->> 'run_id' = t.run_id::text and m.queue_name = 'fetch'"
                " join procrastinate_events ended on ended.job_id = m.id and ended.type = 'succeeded'"
                " where t.phase = 1"
            ).fetchall()
        finally:
            worker.terminate()
            worker.wait()
    databases.drop_all()
    return [float(milliseconds) for (milliseconds,) in rows]


def listen(url: Url) -> None:
    os.environ["DATABASE_URL"] = url
    app = make_app("complete", url)
    app.task(name="clerk.fetch", queue="fetch")(no_op)
    app.run_worker(queues=["fetch", "coordinator"], concurrency=10)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bin/bench engine", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--units", type=int, default=3000, help="jobs per measurement (default: 3000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        variant, url = arguments.work
        listen(url) if variant == "listen" else work(variant, url)
        return

    results: dict[str, dict[str, float]] = {}
    done, of = 0, 2 * arguments.rounds * len(VARIANTS) + 1
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Server(Path(folder) / "postgres", options=SETTINGS)) as url,
        ProgressReporter(arguments.quiet) as progress,
    ):
        databases = Databases(url)
        progress.update("measurements", done, of)
        for sites in (1, 40):
            measured: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
            for number in range(arguments.rounds):
                for variant in VARIANTS:
                    measured[variant].append(measure(databases, variant, sites, arguments.units // sites * sites))
                    progress.note(f"{sites} sites, round {number + 1}, {variant}: {measured[variant][-1]:.0f}/s")
                    progress.update("measurements", done := done + 1, of)
            medians = {variant: statistics.median(values) for variant, values in measured.items()}
            results[f"{sites} sites"] = medians | {"complete / stock": medians["complete"] / medians["stock"]}
        times = coordinator_latency(databases, 100)
        progress.update("measurements", of, of)
    results["end of the last unit to start of the coordinator, ms"] = {
        "median": statistics.median(times),
        "p95": statistics.quantiles(times, n=20)[-1],
    }
    if arguments.json:
        print(json.dumps(results, indent=2))  # noqa: T201
        return
    for title, figures in results.items():
        print(title + ": " + ", ".join(f"{name} {value:.2f}" for name, value in figures.items()))  # noqa: T201


if __name__ == "__main__":
    main()
