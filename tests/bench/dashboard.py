"""Cost of the dashboard: jobs per second of a worker without visitors and with five open pages, in alternating windows.

Also measures the response time of the overview. The database is that of `bin/bench operate`: 10,000 sites, a million
units. The jobs do nothing, so that the worker loads the machine fully. Only ratios within one run are meaningful.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from clerk.cli.progress_reporter import ProgressReporter
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.pipeline import engine
from tests.bench.engine import SETTINGS
from tests.bench.operate import fill
from tests.conftest import Databases, Url, running
from tests.web.test_command import dashboard

PAGES = 5
VARIANTS = ("no visitors", "five pages open", "overview requested")
_BUSY_SITES = 40
_MAX_JOBS_PER_SECOND = 1500
_WARM_UP = 2.0
_REQUEST_INTERVAL = 0.5

Windows = dict[str, list[tuple[float, float]]]
"""Variant → start and end of each window."""


def prepare(url: Url, sites: int, documents: int, jobs: int) -> int:
    """Returns the number of units in the ledger before the worker's no-op jobs."""
    with connect_to(url) as connection:
        Migrator(connection, default_folder()).up()
        fill(connection, sites, documents, active=sites // 100)
        (units,) = connection.execute("select count(*) from content_item_pipeline_state").fetchone() or (0,)
        for number in range(_BUSY_SITES):
            subdomain = f"busy{number}"
            connection.execute("insert into sites (subdomain) values (%s)", [subdomain])
            connection.execute(
                "insert into content_items (subdomain, kind, meeting, date)"
                " select %s, 'minutes', 'Council', date '1900-01-01' + n from generate_series(1, %s) n",
                [subdomain, jobs // _BUSY_SITES],
            )
            engine.start_run(connection, subdomain, first_phase=2)
        connection.execute("vacuum analyze")
    return int(units)


@contextmanager
def open_page(address: str) -> Iterator[None]:
    """Receives live updates like a browser."""
    with ExitStack() as stack:
        client = stack.enter_context(httpx2.Client(timeout=600))
        client.get(address).raise_for_status()
        response = stack.enter_context(client.stream("GET", f"{address}events", params={"page": "/"}))
        response.raise_for_status()
        closing = threading.Event()

        def consume() -> None:
            for _ in response.iter_lines():
                if closing.is_set():
                    return

        reader = threading.Thread(target=consume, daemon=True)
        reader.start()
        yield
        closing.set()
        # It ends with the next update or keep-alive.
        reader.join(60)


def request_overview(address: str, until: float) -> list[float]:
    """Response times of the overview in seconds."""
    durations = []
    with httpx2.Client(timeout=600) as client:
        while time.time() < until:
            started = time.monotonic()
            client.get(address).raise_for_status()
            durations.append(time.monotonic() - started)
            time.sleep(_REQUEST_INTERVAL)
    return durations


def window(variant: str, address: str, seconds: float, windows: Windows) -> list[float]:
    durations: list[float] = []
    with ExitStack() as stack:
        if variant == "five pages open":
            for _ in range(PAGES):
                stack.enter_context(open_page(address))
        time.sleep(_WARM_UP)
        started = time.time()
        if variant == "overview requested":
            durations = request_overview(address, started + seconds)
        else:
            time.sleep(seconds)
        windows[variant].append((started, time.time()))
    return durations


def jobs_per_second(url: Url, windows: list[tuple[float, float]]) -> list[float]:
    with psycopg.connect(url) as connection:
        rates = []
        for started, ended in windows:
            row = connection.execute(
                "select count(*) from procrastinate_events"
                " where type = 'succeeded' and at between to_timestamp(%s) and to_timestamp(%s)",
                [started, ended],
            ).fetchone()
            assert row is not None
            rates.append(row[0] / (ended - started))
    return rates


def measure(url: Url, rounds: int, seconds: float, progress: ProgressReporter) -> tuple[Windows, list[float]]:
    windows: Windows = {variant: [] for variant in VARIANTS}
    durations: list[float] = []
    worker = subprocess.Popen([sys.executable, "-m", "tests.bench.engine", "--work", "complete", url])
    try:
        with dashboard(url) as (_, address):
            for number in range(rounds):
                # In alternating order, so that drift over time affects all variants equally.
                for position, variant in enumerate(VARIANTS if number % 2 == 0 else reversed(VARIANTS)):
                    progress.update("windows", number * len(VARIANTS) + position, rounds * len(VARIANTS))
                    durations += window(variant, address, seconds, windows)
        if worker.poll() is not None:
            raise SystemExit("the worker ran out of jobs: use fewer --rounds or --seconds")
    finally:
        worker.kill()
        worker.wait()
    return windows, durations


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bin/bench dashboard", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sites", type=int, default=10_000, help="default: 10,000")
    parser.add_argument("--documents", type=int, default=49, help="per site (default: 49, which is 101 units)")
    parser.add_argument("--rounds", type=int, default=6, help="how often each is measured (default: 6)")
    parser.add_argument("--seconds", type=float, default=20, help="for how long each time (default: 20)")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    arguments = parser.parse_args()
    total_seconds = arguments.rounds * len(VARIANTS) * (arguments.seconds + 2 * _WARM_UP)
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Server(Path(folder) / "postgres", options=SETTINGS)) as server,
        ProgressReporter(arguments.quiet) as progress,
    ):
        os.environ |= {"STORAGE_DIR": str(Path(folder) / "storage"), "CLERK_HOME": folder}
        url = Databases(server).create()
        jobs = int(total_seconds * _MAX_JOBS_PER_SECOND)
        progress.note(f"filling a database: {arguments.sites:,} sites, and {jobs:,} jobs")
        units = prepare(url, arguments.sites, arguments.documents, jobs)
        windows, durations = measure(url, arguments.rounds, arguments.seconds, progress)
        rates = {variant: jobs_per_second(url, windows[variant]) for variant in VARIANTS}
    report(arguments.json, arguments.sites, units, rates, durations)


def report(as_json: bool, sites: int, units: int, rates: dict[str, list[float]], durations: list[float]) -> None:
    medians = {variant: statistics.median(values) for variant, values in rates.items()}
    alone, watched = VARIANTS[:2]
    figures: dict[str, Any] = {
        "sites": sites,
        "units in the ledger": units,
        "jobs per second": {variant: round(value) for variant, value in medians.items()},
        "with five pages open / without": round(
            statistics.median(b / a for a, b in zip(rates[alone], rates[watched], strict=True)), 3
        ),
        "overview, ms": {
            "requests": len(durations),
            "median": round(1000 * statistics.median(durations)),
            "p95": round(1000 * statistics.quantiles(durations, n=20)[-1]),
        },
    }
    if as_json:
        print(json.dumps(figures, indent=2))  # noqa: T201
        return
    for name, value in figures.items():
        shown = ", ".join(f"{what} {figure:,}" for what, figure in value.items()) if isinstance(value, dict) else value
        print(f"{name}: {shown}")  # noqa: T201


if __name__ == "__main__":
    main()
