"""Runs PgBouncer with docs/examples/pgbouncer.ini in front of a test database."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import conninfo

from tests.faults.proxy import Proxy
from tests.helpers import until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
needs_pgbouncer = pytest.mark.skipif(
    PROGRAM is None, reason="pgbouncer is not installed, and only root can install it (bin/setup --for-tests)"
)
INI = Path(__file__).parents[1] / "docs" / "examples" / "pgbouncer.ini"


class PgBouncer:
    def __init__(self, database: str, folder: Path, **changed: object) -> None:
        """With the settings of the example, but other addresses and what is `changed`."""
        self.port = free_port()
        self.url = f"postgresql://clerk@127.0.0.1:{self.port}/clerk"
        self._file = folder / f"pgbouncer-{self.port}.ini"
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "any",
            **changed,
            "logfile": "",
            "pidfile": "",
            "auth_file": "",
        }
        server = conninfo.conninfo_to_dict(database)
        names = ("host", "port", "user", "password", "dbname")
        lines = [
            line
            for line in INI.read_text(encoding="utf-8").splitlines()
            if not line.startswith("clerk =") and line.partition(" =")[0] not in settings
        ]
        at = lines.index("[databases]") + 1
        lines.insert(at, "clerk = " + " ".join(f"{name}={server[name]}" for name in names if name in server))
        lines += [f"{name} = {value}" for name, value in settings.items()]
        self._file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.start()

    def start(self) -> None:
        # PgBouncer refuses to run as root.
        as_user = ["--user", "nobody"] if os.geteuid() == 0 else []
        command = [str(PROGRAM), *as_user, str(self._file)]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        until(lambda: self._process.poll() is not None or self._listens())
        assert self._process.poll() is None, "pgbouncer did not start"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0


@contextlib.contextmanager
def running(database: str, folder: Path, **changed: object) -> Iterator[PgBouncer]:
    # Over TCP, because another user cannot access the folder of the embedded server's socket.
    proxy = Proxy(database)
    try:
        bouncer = PgBouncer(proxy.url, folder, **changed)
        try:
            yield bouncer
        finally:
            bouncer.kill()
    finally:
        proxy.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
