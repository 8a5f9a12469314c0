"""PgBouncer in front of the database: the pool modes work as docs/runbooks/scaling.md says."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import conninfo

from clerk.db.migrations.migrate import _LOCK_KEY as MIGRATION_LOCK
from clerk.pipeline.connector import ClerkConnector
from tests.faults.pipeline import Pipeline
from tests.faults.proxy import Proxy
from tests.helpers import until

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed (Debian: apt install pgbouncer)")
INI = Path(__file__).parents[2] / "docs" / "examples" / "pgbouncer.ini"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def configure(database: str, folder: Path, **changed: object) -> tuple[str, list[str]]:
    """PgBouncer's URL and command, with the settings of the example but other addresses and what is `changed`."""
    assert PGBOUNCER is not None
    server = conninfo.conninfo_to_dict(database)
    port = free_port()
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "query_wait_timeout": 10,
        **changed,
    }
    settings |= {"logfile": "", "pidfile": "", "auth_file": ""}
    parts = {name: value for name, value in server.items() if name in ("host", "port", "user", "password", "dbname")}
    lines = [
        line
        for line in INI.read_text(encoding="utf-8").splitlines()
        if not line.startswith("clerk =") and line.partition(" =")[0] not in settings
    ]
    at = lines.index("[databases]") + 1
    lines.insert(at, f"clerk = {' '.join(f'{name}={value}' for name, value in parts.items())}")
    lines += [f"{name} = {value}" for name, value in settings.items()]
    file = folder / "pgbouncer.ini"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # PgBouncer refuses to run as root.
    as_user = ["--user", "nobody"] if os.geteuid() == 0 else []
    return f"postgresql://clerk@127.0.0.1:{port}/clerk", [PGBOUNCER, *as_user, str(file)]


@pytest.fixture
def bouncer(database: str, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Call it with settings to change; returns the URL to use."""
    # Over TCP, because another user cannot access the folder of the embedded server's socket.
    proxy = Proxy(database)
    running: list[subprocess.Popen[bytes]] = []

    def start(**changed: object) -> str:
        url, command = configure(proxy.url, tmp_path, **changed)
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        running.append(process)
        until(lambda: process.poll() is not None or _listens(urlsplit(url).port or 0))
        assert process.poll() is None, "pgbouncer did not start"
        return url

    yield start
    for process in running:
        process.kill()
        process.wait()
    proxy.close()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_workers_work_through_session_pooling(bouncer: Callable[..., str], pipeline: Pipeline) -> None:
    url = bouncer()
    pipeline.add_site(documents=5)
    worker = pipeline.worker(url=url)
    run = pipeline.start_run()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_a_task_gets_its_connection(bouncer: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """PgBouncer 1.18 rejects a search_path in the startup options."""
    monkeypatch.setenv("DATABASE_URL", bouncer())
    connector = ClerkConnector()
    with connector.connection() as connection:
        assert connection.execute("show search_path").fetchone() == ("public",)
    asyncio.run(connector.close_async())


def test_notifications_arrive_through_session_pooling(bouncer: Callable[..., str]) -> None:
    url = bouncer()
    with psycopg.connect(url, autocommit=True) as listener, psycopg.connect(url, autocommit=True) as sender:
        listener.execute("listen clerk_test")
        sender.execute("notify clerk_test, 'payload'")
        notification = next(listener.notifies(timeout=30, stop_after=1))
    assert notification.payload == "payload"


@pytest.mark.parametrize(("mode", "both"), [("session", False), ("transaction", True)])
def test_session_locks_exclude_others_in_session_mode_only(bouncer: Callable[..., str], mode: str, both: bool) -> None:
    """In transaction mode both clients get the same session, so two migrations could run at the same time."""
    url = bouncer(pool_mode=mode, default_pool_size=1 if mode == "transaction" else 5)
    try_lock = "select pg_try_advisory_lock(%s)"
    with psycopg.connect(url, autocommit=True) as first, psycopg.connect(url, autocommit=True) as second:
        assert first.execute(try_lock, [MIGRATION_LOCK]).fetchone() == (True,)
        assert second.execute(try_lock, [MIGRATION_LOCK]).fetchone() == (both,)
