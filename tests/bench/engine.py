"""Throughput of the engine: no-op jobs per second of two worker processes at concurrency 10, fsync on.

stock     Procrastinate with default settings, in a database with only its schema; no fan-in
clerk     clerk's worker in clerk's database: claims, ledger, counters, and a real coordinator per site

The jobs are of 20 sites with 100 documents each, and of one site with 5,000; their bodies are coroutines, or plain
functions in threads, as the real stages are. Also measures CPU time and WAL per job, the fan-out of a phase,
latencies on an idle system, throughput behind a large history, throughput while a snapshot is held open, and
throughput with the export of traces. Only ratios within one run are meaningful.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from clerk.cli.progress_reporter import ProgressReporter
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from tests.bench import peers
from tests.bench.engine_measure import (
    CONCURRENCY,
    PROCESSES,
    add_jobs,
    create_schema,
    fan_out,
    idle_latencies,
    measure,
    measure_once,
    work,
    workers,
)
from tests.conftest import Databases, running
from tests.telemetry.collector import running_collector

SETTINGS = {"fsync": "on", "max_wal_size": "4GB", "checkpoint_timeout": "30min", "shared_buffers": "512MB"}
SIZES = ((20, 100), (1, 5000))
BODIES = ("async", "threads")
PARTS = ("throughput", "fan-out", "latency", "history", "snapshot", "tracing")
Log = Callable[[str], None]
Figures = dict[str, Any]


def throughput(databases: Databases, rounds: int, names: list[str], log: Log) -> dict[str, Any]:
    """Interleaved, so that a disturbance hits all variants alike."""
    results: dict[str, Any] = {}
    for sites, units in SIZES:
        for body in BODIES:
            case = f"{sites} x {units}, {body}"
            measured: dict[str, list[Figures]] = {}
            for number in range(rounds):
                for name in ("stock", "clerk", *names):
                    if name in peers.PEERS:
                        found = measure_peer(databases, name, body, sites, units)
                    else:
                        found = asdict(measure(databases, name, body, sites, units))
                    measured.setdefault(name, []).append(found)
                    log(f"{case}, round {number + 1}, {name}: {found['jobs_per_second']:.0f}/s")
            results[case] = {name: _medians(found) for name, found in measured.items()}
    return results


def measure_peer(databases: Databases, name: str, body: str, sites: int, units: int) -> Figures:
    with peers.empty_store(peers.PEERS[name].needs, databases) as url:
        found = peers.measure(name, url, sites, units, PROCESSES, CONCURRENCY, threads=body == "threads")
    return {"jobs_per_second": found.jobs_per_second, "worker_cpu_ms": found.worker_cpu_ms_per_job}


def _medians(measurements: list[Figures]) -> Figures:
    return {
        name: statistics.median(measurement[name] for measurement in measurements)
        for name, value in measurements[0].items()
        if value is not None
    }


def history(databases: Databases, rounds: int, log: Log) -> dict[str, Any]:
    """Jobs per second with 1,000 and with 1,000,000 earlier units in the ledger, each with its finished job."""
    found: dict[int, list[float]] = {1_000: [], 1_000_000: []}
    for number in range(rounds):
        for units, rates in found.items():
            rates.append(measure(databases, "clerk", "async", 20, 100, history=units).jobs_per_second)
            log(f"history of {units} units, round {number + 1}: {rates[-1]:.0f}/s")
    medians = {f"{units} units": statistics.median(rates) for units, rates in found.items()}
    return medians | {"ratio": medians["1000 units"] / medians["1000000 units"]}


def snapshot(databases: Databases, minutes: float, log: Log) -> dict[str, Any]:
    """Jobs per second of successive runs while another session holds a snapshot, which keeps dead rows."""
    url = databases.create()
    rates: list[float] = []
    with connect_to(url) as connection, psycopg.connect(url) as holder:
        create_schema(connection, "clerk")
        holder.execute("begin isolation level repeatable read")
        holder.execute("select count(*) from procrastinate_jobs")
        end = time.monotonic() + 60 * minutes
        with workers("clerk", "async", url, "ocr,coordinator", PROCESSES) as processes:
            while time.monotonic() < end:
                add_jobs(connection, "clerk", 20, 100)
                rates.append(measure_once(connection, "clerk", processes, 20, 100).jobs_per_second)
                log(f"snapshot held, {2000 * len(rates)} jobs: {rates[-1]:.0f}/s")
            holder.rollback()
            connection.execute("vacuum")
            add_jobs(connection, "clerk", 20, 100)
            after = measure_once(connection, "clerk", processes, 20, 100).jobs_per_second
    databases.drop_all()
    return {"first": rates[0], "last": rates[-1], "jobs": 2000 * len(rates), "after the snapshot and a vacuum": after}


def tracing(databases: Databases, rounds: int, log: Log) -> dict[str, Any]:
    """Jobs per second and CPU time without and with an OpenTelemetry collector, and with one that is down."""
    found: dict[str, list[Figures]] = {"off": [], "on": [], "collector down": []}
    for number in range(rounds):
        for case, measurements in found.items():
            with _otel_endpoint(case):
                measurements.append(asdict(measure(databases, "clerk", "async", 20, 100)))
            log(f"tracing {case}, round {number + 1}: {measurements[-1]['jobs_per_second']:.0f}/s")
    medians = {case: _medians(measurements) for case, measurements in found.items()}
    rates = {case: figures["jobs_per_second"] for case, figures in medians.items()}
    return medians | {"ratio to off": {case: rate / rates["off"] for case, rate in rates.items() if case != "off"}}


@contextmanager
def _otel_endpoint(case: str) -> Iterator[None]:
    """Worker processes inherit the variable."""
    name = "OTEL_EXPORTER_OTLP_ENDPOINT"
    os.environ.pop(name, None)
    if case == "on":
        with running_collector() as collector:
            collector.decodes = False
            os.environ[name] = collector.endpoint
            yield
        return
    if case == "collector down":
        os.environ[name] = "http://127.0.0.1:1"
    yield


def latency(databases: Databases, rounds: int) -> dict[str, Any]:
    stock, _ = idle_latencies(databases, "stock", rounds)
    clerk, coordinators = idle_latencies(databases, "clerk", rounds)
    return {
        "a single job, ms": {"stock": statistics.median(stock), "clerk": statistics.median(clerk)},
        "end of the last unit to the coordinator, ms": {
            "median": statistics.median(coordinators),
            "p95": statistics.quantiles(coordinators, n=20)[-1],
        },
    }


def print_table(results: dict[str, Any]) -> None:
    for part, found in results.items():
        print(f"\n{part}")  # noqa: T201
        for title, figures in found.items():
            if part == "throughput":
                _print_throughput(title, figures)
            else:
                print(f"  {title}: {_in_a_line(figures)}")  # noqa: T201


def _print_throughput(title: str, variants: dict[str, dict[str, float]]) -> None:
    clerk = variants["clerk"]["jobs_per_second"]
    for variant, figures in variants.items():
        rate = figures["jobs_per_second"]
        others = {name: value for name, value in figures.items() if name != "jobs_per_second"}
        print(f"  {title:<20} {variant:<10} {rate:7.0f}/s   clerk / it {clerk / rate:5.2f}   {_in_a_line(others)}")  # noqa: T201


def _in_a_line(figures: Any) -> str:
    if isinstance(figures, dict):
        return ", ".join(f"{name} {_in_a_line(value)}" for name, value in figures.items())
    return f"{figures:.3g}" if abs(figures) < 100 else f"{figures:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bin/bench engine", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS[:4]), help="default: the first four")
    parser.add_argument(
        "--peers",
        action="store_true",
        help="also measure PGQueuer, awa-pg, Celery and Huey,\neach installed from PyPI into an environment of its own",
    )
    parser.add_argument("--minutes", type=float, default=10, help="how long the snapshot is held (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        variant, body, url, queues = arguments.work
        work(variant, body, url, queues.split(","))
        return
    results: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Server(Path(folder) / "postgres", options=SETTINGS)) as url,
        ProgressReporter(arguments.quiet) as progress,
    ):
        # Reconciliation, which runs in every worker, must not look at the storage of this checkout.
        os.environ["STORAGE_DIR"] = f"{folder}/storage"
        databases = Databases(url)
        names = list(peers.PEERS) if arguments.peers else []
        peers.prepare_environments(peers.DEFAULT_CACHE, names)
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            "throughput": lambda: throughput(databases, arguments.rounds, names, progress.note),
            "fan-out": lambda: {
                f"{units} documents, seconds": dict(
                    zip(("clerk_start_phase", "stock batch_defer"), fan_out(databases, units), strict=True)
                )
                for units in (2_000, 100_000)
            },
            "latency": lambda: latency(databases, 100),
            "history": lambda: history(databases, arguments.rounds, progress.note),
            "snapshot": lambda: snapshot(databases, arguments.minutes, progress.note),
            "tracing": lambda: tracing(databases, arguments.rounds, progress.note),
        }
        for number, part in enumerate(arguments.only):
            progress.update("parts", number, len(arguments.only))
            results[part] = parts[part]()
    if arguments.json:
        print(json.dumps(results, indent=2))  # noqa: T201
    else:
        print_table(results)


if __name__ == "__main__":
    main()
