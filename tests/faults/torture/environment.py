"""What is tortured: a Postgres server, a storage that can be filled, proxies, and a pool of workers."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.pipeline.engine import QUEUES
from tests.faults.proxy import Proxy
from tests.faults.torture.workers import ForkServer, Worker

_AUDIT = Path(__file__).parents[1] / "audit.sql"
# fsync matters only after a power failure. The other two stay on: a killed server must keep every commit, and the
# kernel may stop a page's write in its middle.
_SERVER_OPTIONS = {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "on"}
_POLICY = """
update stage_policy set lease = '2 seconds', time_limit = '20 seconds', max_attempts = 1000;
-- The engine's lease of coordinators is fixed at two minutes.
create function faults.shorten_lease() returns trigger language plpgsql as $$
begin
    new.lease_until := least(new.lease_until, clerk_now() + interval '2 seconds');
    return new;
end $$;
create trigger faults_shorten_lease before insert or update of lease_until on job_claims
    for each row execute function faults.shorten_lease();
"""
_UNREACHABLE = (psycopg.OperationalError, psycopg.InterfaceError)
_OUTAGE_LIMIT = 180.0
_EARLY, _MAX_EARLY_EXITS = 2.0, 200


class Session:
    """A connection to the database, not through a proxy, that is opened again after an outage. For one thread."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name
        self._connection: psycopg.Connection[Any] | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """Raises psycopg.OperationalError during an outage."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._url, autocommit=True, application_name=self._name, connect_timeout=10, options="-c jit=off"
            )
        return self._connection

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Waits for the end of an outage. For queries that may be repeated."""
        deadline = time.monotonic() + _OUTAGE_LIMIT
        while True:
            try:
                cursor = self.connection.execute(query, parameters)
                return cursor.fetchall() if cursor.description else []
            except _UNREACHABLE:
                if time.monotonic() > deadline:
                    raise
                self.close()
                time.sleep(0.05)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Postgres:
    """A server that can be crashed. Each method returns when it accepts connections again."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder / "postgres", options=_SERVER_OPTIONS)
        self.server.initialise()
        self.server.start()
        self.complaints: Counter[str] = Counter()
        """Lines of the server's log that must not occur."""
        self._lock = threading.Lock()

    def create_database(self, name: str) -> str:
        """A database with clerk's schema."""
        with psycopg.connect(self.server.url("postgres"), autocommit=True) as connection:
            if not connection.execute("select 1 from pg_database where datname = 'migrated'").fetchone():
                connection.execute("create database migrated")
                with connect_to(self.server.url("migrated")) as migrating:
                    Migrator(migrating, default_folder()).up()
            connection.execute(sql.SQL("create database {} template migrated").format(sql.Identifier(name)))
        return self.server.url(name)

    def crash(self, number: signal.Signals) -> None:
        """SIGQUIT is an immediate shutdown. The server starts again when all its processes are gone: a process of the
        old one may still write to the data directory."""
        with self._lock:
            pid = self.server.pid
            assert pid is not None
            processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
            os.kill(pid, number)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            _, alive = psutil.wait_procs(processes, timeout=20)
            for process in alive:
                process.kill()
            psutil.wait_procs(alive)
            self._read_log()
            self.server.start()

    def crash_backend(self, pid: int) -> None:
        """SIGKILL of one session: Postgres ends all of them and recovers."""
        with self._lock:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + _OUTAGE_LIMIT
            while not self.server.is_ready():
                assert time.monotonic() < deadline, "Postgres did not recover from the SIGKILL of a session"
                time.sleep(0.02)

    def restart(self) -> None:
        with self._lock:
            self.server.stop()
            self._read_log()
            self.server.start()

    def stop(self) -> None:
        self.server.stop()
        self._read_log()

    def _read_log(self) -> None:
        """Before the next start, which truncates it."""
        log = self.server.data.with_name(f"{self.server.data.name}.log").read_text(errors="replace")
        for complaint in ("deadlock detected", "PANIC", "invalid page", "could not read block"):
            self.complaints[complaint] += log.count(complaint)


class Storage:
    """STORAGE_DIR and CLERK_PUBLISH_DIR on a small file system of their own, which only root can make."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.is_mounted = os.geteuid() == 0 and self._mount("-t", "tmpfs", "-o", "size=64m", "tmpfs") == 0
        for path in (self.storage, self.publish):
            path.mkdir()

    @property
    def storage(self) -> Path:
        return self.folder / "storage"

    @property
    def publish(self) -> Path:
        return self.folder / "publish"

    def _mount(self, *arguments: str) -> int:
        return subprocess.run(["mount", *arguments, str(self.folder)], check=False, capture_output=True).returncode

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        filler = self.folder / "filler"
        try:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
            yield
        finally:
            filler.unlink(missing_ok=True)

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        deadline = time.monotonic() + 30
        while self._mount("-o", "remount,ro"):  # refused while a file is open for writing
            assert time.monotonic() < deadline, f"{self.folder} could not be made read-only"
            time.sleep(0.01)
        try:
            yield
        finally:
            assert self._mount("-o", "remount,rw") == 0

    def close(self) -> None:
        if self.is_mounted:
            deadline = time.monotonic() + 30
            while subprocess.run(["umount", str(self.folder)], check=False, capture_output=True).returncode:
                assert time.monotonic() < deadline, f"{self.folder} could not be unmounted"
                time.sleep(0.1)


@dataclass(frozen=True)
class Workload:
    sites: int = 6
    documents: int = 12
    work: tuple[float, float] = (0.05, 0.6)
    """Seconds that a task waits, at least and at most."""
    workers: int = 4
    concurrency: int = 2

    @property
    def names(self) -> list[str]:
        return [f"town{number}" for number in range(self.sites)]


class Pipeline:
    """A database with sites, and a pool of workers that reach it through proxies."""

    def __init__(self, url: str, folder: Path, storage: Storage, workload: Workload, name: str) -> None:
        self.url, self.storage, self.workload = url, storage, workload
        self.folder = folder / name
        self.folder.mkdir()
        self.record = self.folder / "record.jsonl"
        self.record.touch()
        with psycopg.connect(url, autocommit=True) as direct:
            direct.execute(_AUDIT.read_bytes())
            direct.execute(_POLICY.encode())
            for site in workload.names:
                direct.execute(
                    "insert into sites (subdomain, name, run_interval) values (%s, %s, '2 seconds')", [site, site]
                )
                direct.execute(
                    "insert into content_items (subdomain, kind, meeting, date)"
                    " select %s, 'minutes', 'Council', date '2024-01-01' + n from generate_series(1, %s) as n",
                    [site, workload.documents],
                )
        self.proxies = [Proxy(url) for _ in range(workload.workers)]
        self.pool: list[Worker] = []
        self.started = 0
        self.exits = 0
        """Workers that ended by themselves."""
        self.any_schema = False
        """Whether workers start on a schema from which a guard was removed."""
        self._early_exits = 0
        self._lock = threading.RLock()
        self._fork_servers: dict[float, ForkServer] = {}

    def fork_server(self, clock: float = 0.0) -> ForkServer:
        with self._lock:
            if clock not in self._fork_servers:
                self._fork_servers[clock] = ForkServer(clock)
            return self._fork_servers[clock]

    def start_worker(self, clock: float = 0.0) -> Worker:
        server = self.fork_server(clock)
        with self._lock:
            in_use = Counter(worker.slot for worker in self.pool)
            slot = min(range(len(self.proxies)), key=lambda number: in_use[number])
            environment = {
                "DATABASE_URL": self.proxies[slot].url,
                "STORAGE_DIR": str(self.storage.storage),
                "CLERK_PUBLISH_DIR": str(self.storage.publish),
                "TORTURE_RECORD": str(self.record),
                "TORTURE_WORK": json.dumps(self.workload.work),
            }
            options = {
                "queues": list(QUEUES),
                "concurrency": self.workload.concurrency,
                "fetch_job_polling_interval": 0.5,
                "abort_job_polling_interval": 0.5,
                "db_timeout": 10.0,
                "unresponsive_after": 3.0,
                "startup_timeout": 60.0,
            }
            self.started += 1
            spec = {
                "environment": environment,
                "log": str(self.folder / f"worker-{self.started}.log"),
                "options": options,
                "any_schema": self.any_schema,
            }
            worker = server.start(spec, slot)
            self.pool.append(worker)
            return worker

    def supervise(self) -> None:
        """Replace dead workers, and fill the pool if some are frozen."""
        with self._lock:
            for worker in [worker for worker in self.pool if not worker.is_alive()]:
                self.pool.remove(worker)
                self.exits += 1
                is_early = time.monotonic() - worker.started_at < _EARLY
                self._early_exits = self._early_exits + 1 if is_early else 0
                # A worker that starts during an outage exits as well.
                if self._early_exits > _MAX_EARLY_EXITS:
                    raise RuntimeError(f"no worker starts: {worker.log.read_text(errors='replace')[-500:]}")
            while sum(not worker.is_frozen for worker in self.pool) < self.workload.workers:
                self.start_worker()

    def remove(self, worker: Worker) -> None:
        """Kill a worker and replace it."""
        with self._lock:
            worker.kill()
            if worker in self.pool:
                self.pool.remove(worker)
            self.supervise()

    def release(self, worker: Worker) -> None:
        """Take a worker out of the pool, without ending it."""
        with self._lock:
            if worker in self.pool:
                self.pool.remove(worker)

    def working(self) -> list[Worker]:
        with self._lock:
            return [worker for worker in self.pool if not worker.is_frozen and worker.is_alive()]

    def stop_workers(self) -> None:
        with self._lock:
            for worker in self.pool:
                worker.kill()
            self.pool.clear()

    def close(self) -> None:
        self.stop_workers()
        for server in self._fork_servers.values():
            server.close()
        for proxy in self.proxies:
            proxy.close()


def pid_of(holder: str) -> int | None:
    """`3f2a… clerk 4711 host` → 4711; None if the session is not a worker's."""
    words = holder.split()
    return int(words[2]) if len(words) > 2 and words[1] == "clerk" and words[2].isdigit() else None


def is_worker(name: str) -> bool:
    return pid_of(name) is not None


def choose(rng: random.Random, items: list[Any]) -> Any:
    return rng.choice(items) if items else None
