"""Pages per second of one and of three machines that share one Postgres server and one object storage, by latency.

The machines are network namespaces of this one: they, the Postgres server, the S3 server (moto) and the links with
latency (a process each) share its cores. So the figures show what a further machine and a slower network cost, not how
much faster more cores are. After each measurement every site has a second run, which finds nothing new. Needs root.

    bin/bench hosts
    bin/bench hosts --storage s3 --hosts 1 3 --latency 0 1 5 --documents 30
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

import click
import psutil

from clerk.cli.progress_reporter import ProgressReporter
from tests.hosts.cluster import Cluster, cluster
from tests.hosts.network import unsupported

_STATISTICS_DELAY = 1.5
"""Seconds. A session reports its commits to the statistics once a second."""


@dataclass(frozen=True)
class Row:
    storage: str
    hosts: int
    round_trip_ms: float
    seconds: float
    pages_per_second: float
    commits: float
    """This and the following are per document. Commits include those that only read."""
    wal_bytes: float
    postgres_cpu_ms: float
    worker_cpu_ms: float
    empty_commits: float
    """This and the following are per run of a site that finds nothing new."""
    empty_wal_bytes: float
    empty_postgres_cpu_ms: float
    empty_worker_cpu_ms: float


@dataclass(frozen=True)
class Usage:
    commits: float
    wal_bytes: float
    postgres_cpu_ms: float
    worker_cpu_ms: float

    def since(self, before: Usage, count: int) -> Usage:
        """The difference, for each of `count`."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Usage(*(round((after - earlier) / count, 1) for after, earlier in pairs))


def usage(machines: Cluster) -> Usage:
    """What has been used until now, without the polls of this benchmark."""
    time.sleep(_STATISTICS_DELAY)
    commits, wal = machines.query(
        "select (select sum(xact_commit) from pg_stat_database)::bigint, pg_current_wal_lsn() - '0/0'::pg_lsn"
    )[0]
    postmaster = machines.server.pid
    assert postmaster is not None
    workers = sum(_cpu(worker.pid) for worker in machines.workers)
    return Usage(commits - machines.polls, float(wal), 1000 * _cpu(postmaster), 1000 * workers)


def _cpu(pid: int) -> float:
    """CPU seconds of a process, of the children that run and of those that have ended."""
    total = 0.0
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # its parent has counted it meanwhile, or does next time
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def measure(storage: str, hosts: int, round_trip: float, given: argparse.Namespace, folder: Path) -> Row:
    with cluster(hosts, folder, round_trip, use_s3=storage == "s3") as machines:
        for host in machines.hosts:
            machines.start_workers(host, given.processes)
        machines.run(machines.add_sites("warmup", 1, 4, 1))
        names = machines.add_sites("town", given.sites, given.documents, given.pages, given.scans)
        before, started = usage(machines), time.monotonic()
        machines.run(names)
        seconds, after = time.monotonic() - started, usage(machines)
        _check(machines, names, "succeeded")
        machines.run(names)
        end = usage(machines)
        _check(machines, names, "unchanged")
    documents = given.sites * given.documents
    each, empty = after.since(before, documents), end.since(after, given.sites)
    return Row(
        storage=storage,
        hosts=hosts,
        round_trip_ms=round_trip,
        seconds=round(seconds, 1),
        pages_per_second=round(documents * given.pages / seconds, 2),
        **asdict(each),
        **{f"empty_{name}": value for name, value in asdict(empty).items()},
    )


def _check(machines: Cluster, names: list[str], expected: str) -> None:
    outcomes = machines.query("select subdomain, outcome from sites where subdomain = any(%s)", names)
    wrong = [row for row in outcomes if row[1] != expected]
    assert not wrong, f"the outcome should be {expected}: {wrong}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bin/bench hosts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--storage", nargs="+", choices=("folder", "s3"), default=["folder", "s3"])
    parser.add_argument("--hosts", nargs="+", type=int, default=[1, 3], help="numbers of machines (default: 1 3)")
    parser.add_argument("--latency", nargs="+", type=float, default=[0.0, 1.0, 5.0], help="round trips in ms")
    parser.add_argument("--processes", type=int, default=1, help="worker processes per machine (default: 1)")
    parser.add_argument("--sites", type=int, default=6)
    parser.add_argument("--documents", type=int, default=30, help="per site (default: 30)")
    parser.add_argument("--scans", type=int, default=0, help="scanned ones among them (default: 0)")
    parser.add_argument("--pages", type=int, default=2, help="per document (default: 2)")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    given = parser.parse_args()
    if reason := unsupported():
        sys.exit(f"bin/bench hosts: {reason}")
    cases = list(itertools.product(given.latency, given.storage, given.hosts))
    rows: list[Row] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the servers, workers and namespaces
    try:
        with ProgressReporter(given.quiet) as progress, tempfile.TemporaryDirectory(prefix="clerk-hosts-") as scratch:
            for number, (latency, storage, count) in enumerate(cases):
                progress.update("cases", number, len(cases))
                rows.append(measure(storage, count, latency, given, Path(scratch) / str(number)))
                progress.note(str(rows[-1]))
    finally:
        # Also those that were measured until it was stopped.
        results = {"load_at_end": round(os.getloadavg()[0], 1), "rows": [asdict(row) for row in rows]}
        click.echo(json.dumps(results, indent=2) if given.json else _table(rows))


def _table(rows: list[Row]) -> str:
    names = [field.name for field in fields(Row)]
    lines = [names, ["---"] * len(names), *([str(value) for value in asdict(row).values()] for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


if __name__ == "__main__":
    main()
