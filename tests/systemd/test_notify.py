"""Notifications that systemd receives from a worker, on a real datagram socket with the sender's process id."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest

from clerk.process import sd_notify
from tests.conftest import Url
from tests.helpers import until as until_within

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="SO_PASSCRED is Linux's")


until = partial(until_within, seconds=120.0)  # a busy machine starts processes slowly


class Systemd:
    """systemd's end of the socket."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(address))
        self._socket.setblocking(False)
        self.received: list[tuple[int, str]] = []

    def receive(self) -> list[tuple[int, str]]:
        while True:
            try:
                data, control, *_ = self._socket.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
            except BlockingIOError:
                return self.received
            pid, _, _ = struct.unpack("3i", control[0][2])
            self.received += [(pid, line) for line in data.decode().splitlines()]

    def has_received(self, pid: int, line: str) -> bool:
        return (pid, line) in self.receive()

    def clear(self) -> None:
        self.receive()
        self.received.clear()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    listener = Systemd(tmp_path / "notify")
    yield listener
    listener.close()


@pytest.fixture(params=["one process", "supervisor"])
def worker(request: pytest.FixtureRequest, database: Url, systemd: Systemd) -> Iterator[psutil.Popen]:
    processes = "1" if request.param == "one process" else "2"
    process = psutil.Popen(
        [sys.executable, "-m", "clerk", "worker", "--queues", "deploy", "--processes", processes],
        env={**os.environ, "DATABASE_URL": database, "NOTIFY_SOCKET": str(systemd.address)},
        stderr=subprocess.DEVNULL,
    )
    yield process
    end(process)


def end(process: psutil.Popen) -> None:
    for each in [*(process.children() if process.poll() is None else []), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()


def test_only_the_main_process_sends_ready_then_heartbeats_then_stopping(
    worker: psutil.Popen, systemd: Systemd
) -> None:
    until(lambda: systemd.has_received(worker.pid, "READY=1"))
    assert not systemd.has_received(worker.pid, "STOPPING=1")
    systemd.clear()
    until(lambda: systemd.has_received(worker.pid, "WATCHDOG=1"))
    worker.terminate()
    assert worker.wait(120) == 0
    assert systemd.has_received(worker.pid, "STOPPING=1")
    assert {pid for pid, _ in systemd.receive()} == {worker.pid}


def has_queried(connection: psycopg.Connection, pid: int) -> bool:
    """Whether that worker's watchdog has queried the database, as it does before its second heartbeat."""
    return (
        connection.execute(
            "select 1 from pg_stat_activity where application_name like %s and query = 'select 1'",
            [f"% clerk {pid} %"],
        ).fetchone()
        is not None
    )


@pytest.fixture
def supervisor(database: Url, systemd: Systemd) -> Iterator[psutil.Popen]:
    """Two workers, and a supervisor with a short heartbeat timeout."""
    program = (
        "from clerk.cli.worker import plan_processes, worker_specs; from clerk.process.supervisor import Supervisor;"
        "Supervisor(worker_specs(plan_processes(('deploy',), 2, None), []), heartbeat_timeout=20).run()"
    )
    environment = {**os.environ, "DATABASE_URL": database, "NOTIFY_SOCKET": str(systemd.address)}
    process = psutil.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL)
    yield process
    end(process)


def child_pids(supervisor: psutil.Popen) -> list[int]:
    return until(lambda: [child.pid for child in supervisor.children()] if len(supervisor.children()) == 2 else [])


def test_the_supervisor_is_ready_when_all_children_are(
    supervisor: psutil.Popen, systemd: Systemd, connection: psycopg.Connection
) -> None:
    """A child that cannot start must not be hidden: systemd reports the service as starting."""
    late, early = child_pids(supervisor)
    os.kill(late, signal.SIGSTOP)
    until(lambda: has_queried(connection, early))
    assert systemd.receive() == []
    os.kill(late, signal.SIGCONT)
    until(lambda: systemd.has_received(supervisor.pid, "READY=1"))


def test_a_hanging_child_is_restarted_and_the_other_is_not(supervisor: psutil.Popen, systemd: Systemd) -> None:
    hanging, healthy = child_pids(supervisor)
    until(lambda: systemd.has_received(supervisor.pid, "READY=1"))
    os.kill(hanging, signal.SIGSTOP)
    until(lambda: not psutil.pid_exists(hanging))
    assert healthy in child_pids(supervisor)
    supervisor.terminate()
    assert supervisor.wait(120) == 0


def test_a_full_socket_does_not_block(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(sd_notify.ADDRESS, str(systemd.address))
    for _ in range(2000):  # far beyond net.unix.max_dgram_qlen
        sd_notify.notify(sd_notify.ALIVE)
    assert "cannot notify" in caplog.text
    systemd.close()
    caplog.clear()
    sd_notify.notify(sd_notify.ALIVE)
    assert "refused" in caplog.text


def test_an_abstract_address_is_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"clerk-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        monkeypatch.setenv(sd_notify.ADDRESS, f"@{name}")
        sd_notify.notify("READY=1")
        assert listener.recv(100) == b"READY=1"
