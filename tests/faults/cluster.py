"""A Postgres primary and its streaming standby on two ports of this machine, for tests of failover."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from clerk.db.connection import connect_to
from clerk.db.embedded.server import DATABASE, SUPERUSER, Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from tests.faults.pipeline import until

# Committed data must survive a crash of the server, but not a power failure.
_OPTIONS = {
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_keep_size": "256MB",
    "wal_retrieve_retry_interval": "100ms",
    "checkpoint_timeout": "30min",
}
_PORTS = range(20_000, 30_000)
"""Outside the range from which the kernel chooses ports of clients."""


@dataclass(frozen=True)
class Node(Server):
    """One server of a cluster. It accepts connections by TCP, and replication, without a password."""

    port: int = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{SUPERUSER}@{self.host}/{database}"

    def _write_authentication(self) -> None:
        lines = (f"host {databases} all 127.0.0.1/32 trust\n" for databases in ("all", "replication"))
        self._replace(self.data / "pg_hba.conf", "".join(lines).encode())

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Returns the rows of the last statement."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def set(self, name: str, value: str) -> None:
        """Change a setting of the running server, for open sessions too."""
        before = self.execute("select pg_conf_load_time()")
        self.execute(f"alter system set {name} = '{value}'", "select pg_reload_conf()")
        until(lambda: self.execute("select pg_conf_load_time()") != before, f"{name} = {value!r}")

    def crash(self) -> None:
        """Kill all processes of the server. Returns when they are gone."""
        pid = self.pid
        assert pid is not None
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        os.kill(pid, signal.SIGQUIT)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        psutil.wait_procs(processes)

    def promote(self) -> None:
        assert self.execute("select pg_promote(true, 120)") == [(True,)]

    def follow(self, primary: Node) -> None:
        """Become the primary's standby after a clean shutdown of this server, and start."""
        (self.data / "standby.signal").touch()
        conninfo = f"host=127.0.0.1 port={primary.port} user={SUPERUSER} application_name={self.data.name}"
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = '{conninfo}'\n")
        self.start()

    def copy(self, primary: Node) -> None:
        """Replace this server's data by a copy of the primary's."""
        shutil.rmtree(self.data, ignore_errors=True)
        command = ["pg_basebackup", f"--pgdata={self.data}", "--checkpoint=fast", "--no-sync"]
        address = f"postgresql://{SUPERUSER}@{primary.host}"
        subprocess.run([str(self.binaries / command[0]), *command[1:], f"--dbname={address}"], check=True)

    def replays(self, primary: Node) -> bool:
        """Whether this standby has replayed what is committed on the primary now."""
        ((position,),) = primary.execute("select pg_current_wal_lsn()")
        return self.execute(f"select pg_last_wal_replay_lsn() >= '{position}'") == [(True,)]

    def stop_receiving(self) -> None:
        """As if the network between standby and primary were down: what the primary commits now does not arrive."""
        self.set("primary_conninfo", "")
        until(lambda: self.execute("select from pg_stat_wal_receiver") == [], "the end of the replication")


class Cluster:
    def __init__(self, folder: Path) -> None:
        ports = _free_ports(2)
        self.primary, self.standby = (
            Node(folder / name, options=_OPTIONS | {"port": str(port)}, port=port)
            for name, port in zip(("first", "second"), ports, strict=True)
        )
        self.nodes = (self.primary, self.standby)
        self._numbers = itertools.count(1)

    def url(self, database: str = DATABASE) -> str:
        """Of a database on the server that accepts writes, whichever it is."""
        hosts = ",".join(node.host for node in self.nodes)
        return f"postgresql://{SUPERUSER}@{hosts}/{database}?target_session_attrs=read-write"

    def create_database(self) -> str:
        """The URL of a new database with clerk's schema."""
        name = f"test_{next(self._numbers)}"
        self.primary.execute(f"create database {name} template {DATABASE}")
        self.wait_for_standby()
        return self.url(name)

    def start(self) -> None:
        self.primary.initialise()
        self.primary.start()
        self.primary.create_database()
        with connect_to(self.primary.url()) as connection:
            Migrator(connection, default_folder()).up()
        self.start_standby()

    def start_standby(self) -> None:
        """Make a new standby from a copy of the primary."""
        self.standby.copy(self.primary)
        self.standby.follow(self.primary)
        self.wait_for_standby()

    def wait_for_standby(self) -> None:
        until(lambda: self.standby.replays(self.primary), "the standby")

    def promote(self) -> None:
        """Swap the roles of the servers. The old primary has stopped or accepts no writes."""
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def switch_over(self) -> None:
        """Planned: a clean shutdown sends everything to the standby, and the old primary becomes the standby."""
        self.primary.stop()
        self.promote()
        self.standby.follow(self.primary)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster with clerk's schema."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _free_ports(count: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < count:
        port = random.choice(_PORTS)  # noqa: S311 (not for secrets)
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            ports.add(port)
    return list(ports)
