"""What systemd hears of a worker, on a real datagram socket with the sender's process id."""

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


until = partial(until_within, seconds=120.0)  # processes that start, on a machine that may be busy


class Systemd:
    """The end of the socket that systemd holds: it takes words of the main process only (NotifyAccess=main)."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(address))
        self._socket.setblocking(False)
        self.heard: list[tuple[int, str]] = []

    def listen(self) -> list[tuple[int, str]]:
        while True:
            try:
                data, control, *_ = self._socket.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
            except BlockingIOError:
                return self.heard
            pid, _, _ = struct.unpack("3i", control[0][2])
            self.heard += [(pid, word) for word in data.decode().splitlines()]

    def heard_from(self, pid: int, word: str) -> bool:
        return (pid, word) in self.listen()

    def forget(self) -> None:
        self.listen()
        self.heard.clear()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    listener = Systemd(tmp_path / "notify")
    yield listener
    listener.close()


@pytest.fixture(params=["one process", "family"])
def worker(request: pytest.FixtureRequest, database: Url, systemd: Systemd) -> Iterator[psutil.Popen]:
    members = "1" if request.param == "one process" else "2"
    process = psutil.Popen(
        [sys.executable, "-m", "clerk", "worker", "--queues", "deploy", "--processes", members],
        env={**os.environ, "DATABASE_URL": database, "NOTIFY_SOCKET": str(systemd.address)},
        stderr=subprocess.DEVNULL,
    )
    yield process
    end(process)


def end(process: psutil.Popen) -> None:
    for one in [*(process.children() if process.poll() is None else []), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


def test_the_main_process_alone_says_ready_then_alive_then_stopping(worker: psutil.Popen, systemd: Systemd) -> None:
    until(lambda: systemd.heard_from(worker.pid, "READY=1"))
    assert not systemd.heard_from(worker.pid, "STOPPING=1")
    systemd.forget()
    until(lambda: systemd.heard_from(worker.pid, "WATCHDOG=1"))
    worker.terminate()
    assert worker.wait(120) == 0
    assert systemd.heard_from(worker.pid, "STOPPING=1")
    assert {pid for pid, _ in systemd.listen()} == {worker.pid}


def look_of(connection: psycopg.Connection, pid: int) -> bool:
    """Whether that worker has looked at the database, as it does before it speaks again."""
    return (
        connection.execute(
            "select 1 from pg_stat_activity where application_name like %s and query = 'select 1'",
            [f"% clerk {pid} %"],
        ).fetchone()
        is not None
    )


@pytest.fixture
def family(database: Url, systemd: Systemd) -> Iterator[psutil.Popen]:
    """Two processes, and a parent of little patience."""
    program = (
        "from clerk.cli.worker import members, shares; from clerk.process.supervisor import Family;"
        "Family(members(shares(('deploy',), 2, None), []), silent_after=12).run()"
    )
    environment = {**os.environ, "DATABASE_URL": database, "NOTIFY_SOCKET": str(systemd.address)}
    process = psutil.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL)
    yield process
    end(process)


def members(family: psutil.Popen) -> list[int]:
    return until(lambda: [child.pid for child in family.children()] if len(family.children()) == 2 else [])


def test_a_family_is_ready_when_all_members_are(
    family: psutil.Popen, systemd: Systemd, connection: psycopg.Connection
) -> None:
    """One that cannot start keeps the whole from being ready: systemd says so instead of showing it as running."""
    late, early = members(family)
    os.kill(late, signal.SIGSTOP)
    until(lambda: look_of(connection, early))
    assert systemd.listen() == []
    os.kill(late, signal.SIGCONT)
    until(lambda: systemd.heard_from(family.pid, "READY=1"))


def test_a_member_that_hangs_is_replaced_and_its_neighbour_left_alone(family: psutil.Popen, systemd: Systemd) -> None:
    hanging, well = members(family)
    until(lambda: systemd.heard_from(family.pid, "READY=1"))
    os.kill(hanging, signal.SIGSTOP)
    until(lambda: not psutil.pid_exists(hanging))
    assert well in members(family)
    family.terminate()
    assert family.wait(120) == 0


def test_a_socket_that_nobody_reads_holds_up_nobody(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(sd_notify.ADDRESS, str(systemd.address))
    for _ in range(2000):  # far beyond net.unix.max_dgram_qlen
        sd_notify.notify(sd_notify.ALIVE)
    assert "cannot be told" in caplog.text
    systemd.close()
    caplog.clear()
    sd_notify.notify(sd_notify.ALIVE)
    assert "refused" in caplog.text


def test_an_abstract_address_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"clerk-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        monkeypatch.setenv(sd_notify.ADDRESS, f"@{name}")
        sd_notify.notify("READY=1")
        assert listener.recv(100) == b"READY=1"
