"""With PgBouncer between: what docs/runbooks/scaling.md says of its pool modes is so."""

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

from clerk.db.migrations.migrate import _LOCK_KEY as MIGRATORS
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


def in_front_of(database: str, folder: Path, **changed: object) -> tuple[str, list[str]]:
    """Its URL, and the command that runs it: our example's settings, but for where it is and what is changed."""
    assert PGBOUNCER is not None
    server = conninfo.conninfo_to_dict(database)
    port = free_port()
    mine = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "query_wait_timeout": 10,
        **changed,
    }
    mine |= {"logfile": "", "pidfile": "", "auth_file": ""}
    parts = {name: value for name, value in server.items() if name in ("host", "port", "user", "password", "dbname")}
    lines = [
        line
        for line in INI.read_text(encoding="utf-8").splitlines()
        if not line.startswith("clerk =") and line.partition(" =")[0] not in mine
    ]
    at = lines.index("[databases]") + 1
    lines.insert(at, f"clerk = {' '.join(f'{name}={value}' for name, value in parts.items())}")
    lines += [f"{name} = {value}" for name, value in mine.items()]
    file = folder / "pgbouncer.ini"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # It refuses to run as root.
    as_user = ["--user", "nobody"] if os.geteuid() == 0 else []
    return f"postgresql://clerk@127.0.0.1:{port}/clerk", [PGBOUNCER, *as_user, str(file)]


@pytest.fixture
def bouncer(database: str, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Call it with settings to change; returns the URL to use."""
    # By TCP: the embedded server's socket lies in a folder that another user cannot enter.
    proxy = Proxy(database)
    running: list[subprocess.Popen[bytes]] = []

    def start(**changed: object) -> str:
        url, command = in_front_of(proxy.url, tmp_path, **changed)
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
    pipeline.site(documents=5)
    worker = pipeline.worker(url=url)
    run = pipeline.start()
    assert pipeline.until_ended(run) == "succeeded"
    assert worker.stop() == 0
    pipeline.check()


def test_the_body_of_a_job_gets_its_connection(bouncer: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """PgBouncer 1.18 refuses a session that asks for its search_path by a startup option."""
    monkeypatch.setenv("DATABASE_URL", bouncer())
    connector = ClerkConnector()
    with connector.connection() as connection:
        assert connection.execute("show search_path").fetchone() == ("public",)
    asyncio.run(connector.close_async())


def test_who_listens_hears_through_session_pooling(bouncer: Callable[..., str]) -> None:
    url = bouncer()
    with psycopg.connect(url, autocommit=True) as listener, psycopg.connect(url, autocommit=True) as speaker:
        listener.execute("listen clerk_test")
        speaker.execute("notify clerk_test, 'word'")
        heard = next(listener.notifies(timeout=30, stop_after=1))
    assert heard.payload == "word"


@pytest.mark.parametrize(("mode", "both"), [("session", False), ("transaction", True)])
def test_a_lock_of_a_session_keeps_another_out_in_session_mode_only(
    bouncer: Callable[..., str], mode: str, both: bool
) -> None:
    """Two migrators, or two reconcilers, would be let in at once: both statements meet the same session."""
    url = bouncer(pool_mode=mode, default_pool_size=1 if mode == "transaction" else 5)
    ask = "select pg_try_advisory_lock(%s)"
    with psycopg.connect(url, autocommit=True) as one, psycopg.connect(url, autocommit=True) as another:
        assert one.execute(ask, [MIGRATORS]).fetchone() == (True,)
        assert another.execute(ask, [MIGRATORS]).fetchone() == (both,)
