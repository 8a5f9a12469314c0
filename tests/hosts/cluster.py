"""Several machines with clerk workers, one Postgres server and one S3 server (or one shared folder)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg

from clerk.db.connection import connect_to
from clerk.db.embedded.server import DATABASE, SUPERUSER, Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.sites import add_site
from clerk.demo.documents import digital, scanned
from clerk.pipeline import engine
from tests.conftest import running
from tests.helpers import until
from tests.hosts.network import NETWORK, Host, hosts

_BUCKET = "archives"
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


@dataclass
class Cluster:
    url: str
    """The database, as seen from this machine."""
    server: Server
    hosts: list[Host]
    folder: Path
    s3_port: int | None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    polls: int = 0
    """Transactions in which `wait` asked whether the runs have ended."""

    def environment(self, host: Host) -> dict[str, str]:
        """Settings of the workers on a host: all services are at its gateway."""
        postgres = f"postgresql://{SUPERUSER}@{host.gateway}/{DATABASE}"
        variables = {"DATABASE_URL": postgres, "CLERK_PUBLISH_DIR": str(self.folder / "published")}
        if self.s3_port is None:
            return {**variables, "STORAGE_DIR": str(self.folder / "storage")}
        endpoint = f"http://{host.gateway}:{self.s3_port}"
        return {**variables, **_CREDENTIALS, "STORAGE_DIR": f"s3://{_BUCKET}/storage?endpoint={endpoint}"}

    def start_workers(self, host: Host, processes: int, queues: str = "all") -> subprocess.Popen[bytes]:
        options = ["--processes", str(processes), "--queues", queues, "--log-format", "json"]
        worker = host.start("worker", *options, environment=self.environment(host))
        self.workers.append(worker)
        return worker

    def stop_workers(self) -> None:
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                for process in psutil.Process(worker.pid).children(recursive=True):
                    process.kill()
                worker.kill()
                worker.wait()
        self.workers.clear()

    def add_sites(self, prefix: str, sites: int, documents: int, pages: int, scans: int = 0) -> list[str]:
        """Sites whose documents lie in folders; of each site's documents the first `scans` are scanned."""
        names = [f"{prefix}{number}" for number in range(1, sites + 1)]
        with connect_to(self.url) as connection:
            for name in names:
                source = self.folder / "sources" / name / "Council"
                source.mkdir(parents=True)
                for number in range(documents):
                    day = date(2024, 1, 2) + timedelta(days=number)
                    r = random.Random(f"{name} {number}")  # noqa: S311
                    make = scanned if number < scans else digital
                    (source / f"{day}.pdf").write_bytes(make(r, name, day, pages))
                extra = json.dumps({"path": str(source.parent)})
                with connection.transaction():
                    add_site(connection, name, {"name": name, "scraper": "directory", "extra": extra})
                    # Recently updated, so that the scheduler does not start it.
                    connection.execute("update sites set updated_at = now() where subdomain = %s", [name])
        return names

    def run(self, names: list[str], seconds: float = 1800.0) -> None:
        """Start a run of each site and wait until all have ended."""
        self.start_runs(names)
        self.wait(names, seconds)

    def start_runs(self, names: list[str]) -> None:
        with connect_to(self.url) as connection:
            for name in names:
                engine.start_run(connection, name, "measurement")

    def wait(self, names: list[str], seconds: float = 1800.0) -> None:
        query = b"select count(*) from sites where subdomain = any(%s) and current_stage = 'completed'"

        def ended() -> bool:
            for worker in self.workers:
                assert worker.poll() is None, "a worker has ended: see output.log of its host"
            self.polls += 1
            return connection.execute(query, [names]).fetchone() == (len(names),)

        # One connection for all polls: a new one costs the server more than several documents.
        with psycopg.connect(self.url, autocommit=True) as connection:
            until(ended, seconds, every=0.1)

    def query(self, text: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(text.encode(), arguments).fetchall()


@contextlib.contextmanager
def cluster(count: int, folder: Path, round_trip: float = 0.0, use_s3: bool = True) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        folder.mkdir()
        s3_port = stack.enter_context(_s3_server(folder)) if use_s3 else None
        machines = stack.enter_context(hosts(count, folder, round_trip))
        # The gateways belong to this cluster, so the standard port is free there.
        addresses = ",".join(host.gateway for host in machines)
        server = Server(folder / "postgres", options={"listen_addresses": addresses})
        url = stack.enter_context(running(server))
        with psycopg.connect(url, autocommit=True) as connection:
            rules = server.data / "pg_hba.conf"
            rules.write_text(rules.read_text() + f"host all all {NETWORK}.0.0/16 trust\n")
            connection.execute("select pg_reload_conf()")
            connection.execute(f"create database {DATABASE}")
        url = url.replace("/postgres?", f"/{DATABASE}?")
        with connect_to(url) as connection:
            Migrator(connection, default_folder()).up()
        running_cluster = Cluster(url, server, machines, folder, s3_port)
        try:
            yield running_cluster
        finally:
            running_cluster.stop_workers()


@contextlib.contextmanager
def _s3_server(folder: Path) -> Iterator[int]:
    """moto's S3 server, which honours conditional writes, with one bucket."""
    port = _free_port()
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "0.0.0.0", "-p", str(port)],  # noqa: S104
            env={**os.environ, "MOTO_S3_CUSTOM_ENDPOINTS": ""}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        until(lambda: _answers(port))
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{_BUCKET}", method="PUT")
        urllib.request.urlopen(request).close()  # noqa: S310
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
