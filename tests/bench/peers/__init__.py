"""Other job queues, measured as clerk is: no-op jobs of several sites, and a coordinator job after the last of a site.

Each peer is installed from PyPI into an environment of its own; none is a dependency of clerk. Its script enqueues the
jobs or is one worker process, and runs in that environment. All peers do the same: the body of a job only counts the
completion for its site, and the job that completes the count enqueues a coordinator.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import psutil
import psycopg
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from tests.bench.peers.worker_report import WRITE_INTERVAL, Counts, Options
from tests.conftest import Databases

DEFAULT_CACHE = Path.home() / ".cache" / "clerk-bench"
Worker = subprocess.Popen[bytes]

START_TIMEOUT = 60.0
RUN_TIMEOUT = 600.0
STOP_TIMEOUT = 10.0


@dataclass(frozen=True)
class Peer:
    """A job queue to compare with, and its script in this folder."""

    name: str
    requirements: tuple[str, ...]
    needs: Literal["postgres", "redis"]
    script: str
    tuned: bool = False

    def environment(self, cache: Path) -> Path:
        return cache / self.name

    def command(self, cache: Path, options: Options) -> list[str]:
        """Run the script. Its folder comes first on sys.path, so that it can import worker_report."""
        script = Path(__file__).with_name(self.script)
        return [str(self.environment(cache) / "bin" / "python"), str(script), json.dumps(asdict(options))]


_ASYNCPG = ("asyncpg==0.32.0", "uvloop==0.23.0")
_REDIS = ("redis[hiredis]==8.1.0",)

PEERS = {
    peer.name: peer
    for peer in (
        Peer("pgqueuer", ("pgqueuer==1.6.0", *_ASYNCPG), "postgres", "pgqueuer_worker.py"),
        Peer("pgqueuer-tuned", ("pgqueuer==1.6.0", *_ASYNCPG), "postgres", "pgqueuer_worker.py", tuned=True),
        Peer("awa-pg", ("awa-pg==0.6.9", *_ASYNCPG), "postgres", "awa_worker.py"),
        Peer("celery", ("celery[redis]==5.7.0", "kombu==5.7.0", *_REDIS), "redis", "celery_worker.py"),
        Peer("huey", ("huey==3.5.4", *_REDIS), "redis", "huey_worker.py"),
    )
}


@dataclass(frozen=True)
class Measurement:
    jobs_per_second: float
    worker_cpu_ms_per_job: float
    """CPU time of the worker processes and their children, without their imports."""


def prepare_environments(cache: Path, names: Iterable[str]) -> None:
    """Create the environments that do not exist with exactly these requirements."""
    for name in names:
        peer = PEERS[name]
        environment = peer.environment(cache)
        installed = environment / "requirements.txt"
        wanted = "\n".join(peer.requirements)
        if installed.exists() and installed.read_text() == wanted:
            continue
        _say(f"installing {', '.join(peer.requirements)} into {environment}")
        _uv("venv", "--clear", "--python", sys.executable, str(environment))
        _uv("pip", "install", "--only-binary", ":all:", "--python", str(environment), *peer.requirements)
        installed.write_text(wanted)


def _uv(*arguments: str) -> None:
    # uv does not read pip's settings, where a mirror is usually configured.
    setting = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    index = os.environ.get("PIP_INDEX_URL") or subprocess.run(setting, capture_output=True, text=True).stdout.strip()
    environment = {"UV_DEFAULT_INDEX": index} if index else {}
    result = subprocess.run(
        [str(Path(sys.executable).with_name("uv")), "--quiet", *arguments],
        env=environment | os.environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    if result.returncode:
        raise SystemExit(
            f"the environment of a peer was not created: uv {' '.join(arguments)} failed:\n{result.stderr.strip()}\n"
            "check that PyPI, or the index of PIP_INDEX_URL, can be reached, then run the benchmark again"
        )


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Run an empty Redis with its default settings on a free port of the loopback interface; yields its URL."""
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("redis-server is not installed; install it with bin/setup --for-tests")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", folder], stdout=subprocess.DEVNULL
        ) as process,
    ):
        try:
            with Redis(port=port, retry=Retry(ConstantBackoff(0.01), 3000)) as connection:
                connection.ping()
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()


@contextlib.contextmanager
def empty_store(needs: str, databases: Databases) -> Iterator[str]:
    """The URL of an empty database or of an empty Redis."""
    if needs == "redis":
        with redis_server() as url:
            yield url
    else:
        yield databases.create()
        databases.drop_all()


def measure(
    name: str,
    url: str,
    sites: int,
    units_per_site: int,
    processes: int = 2,
    concurrency: int = 10,
    threads: bool = False,
    cache: Path = DEFAULT_CACHE,
) -> Measurement:
    """Run `units_per_site` jobs for each of `sites` sites in the empty database or Redis of `url`.

    With `threads`, the body of a job is a plain function that runs in a thread.
    """
    peer = PEERS[name]
    units = sites * units_per_site
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder) / "reports"
        reports.mkdir()
        options = Options("enqueue", url, sites, units_per_site, concurrency, threads, peer.tuned, str(reports))
        subprocess.run(peer.command(cache, options), check=True)
        if peer.needs == "postgres":
            _create_counters(url, sites)
        log = Path(folder) / "log"
        with running_workers(peer.command(cache, replace(options, command="work")), processes, log) as workers:
            wait_for(lambda: len(list(reports.glob("*.json"))) == processes, START_TIMEOUT, workers, log)
            cpu_before = _cpu_seconds(workers)
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.close()

            def is_complete() -> bool:
                counts = sum_reports(reports)
                return counts.units >= units and counts.coordinators >= sites

            wait_for(is_complete, RUN_TIMEOUT, workers, log)
            cpu = _cpu_seconds(workers) - cpu_before
            time.sleep(4 * WRITE_INTERVAL)  # a coordinator too many would be written by now
            total = sum_reports(reports)
    for counted, expected, jobs in (
        (total.units, units, "units"),
        (total.coordinators, sites, "coordinators"),
    ):
        if counted != expected:
            _say(f"warning: {name} ran {counted} {jobs} instead of {expected}")
    return Measurement(units / (total.last_end - total.first_start), 1000 * cpu / units)


def _create_counters(url: str, sites: int) -> None:
    """A row per site, as an application would keep it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table counters (site integer primary key, done integer not null default 0)")
        connection.execute("insert into counters (site) select generate_series(0, %s)", [sites - 1])
        connection.execute("vacuum analyze")


@contextlib.contextmanager
def running_workers(command: list[str], processes: int, log: Path) -> Iterator[list[Worker]]:
    """Start worker processes, and stop them at the end."""
    with log.open("wb") as output:
        workers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output) for _ in range(processes)
        ]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            with worker:
                try:
                    worker.wait(STOP_TIMEOUT)
                except subprocess.TimeoutExpired:
                    worker.kill()


def wait_for(condition: Callable[[], bool], seconds: float, workers: list[Worker], log: Path) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        ended = [worker for worker in workers if worker.poll() is not None]
        if ended or time.monotonic() > deadline:
            reason = f"ended with status {ended[0].returncode}" if ended else f"were not done within {seconds:g} s"
            raise SystemExit(
                f"the workers of the peer {reason}; their output:\n{log.read_text(errors='replace')[-4000:]}"
            )
        time.sleep(WRITE_INTERVAL)


def _cpu_seconds(workers: list[Worker]) -> float:
    """User and system time of the workers and their children."""
    return sum(sum(psutil.Process(worker.pid).cpu_times()[:4]) for worker in workers)


def sum_reports(reports: Path) -> Counts:
    """The sum of the reports of all processes."""
    counts = [Counts(**json.loads(file.read_text())) for file in reports.glob("*.json")]
    return Counts(
        units=sum(each.units for each in counts),
        coordinators=sum(each.coordinators for each in counts),
        first_start=min((each.first_start for each in counts if each.units), default=0.0),
        last_end=max(each.last_end for each in counts),
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
