"""Worker processes that start in a fraction of a second: forked from a process that has imported everything.

Run as a module, this is that process: it reads a JSON object per line from stdin (see Spec), forks, and
writes the child's pid to stdout. It ends, with its children, when stdin is closed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
Spec = dict[str, Any]
"""`environment`, `log`, `options` of the worker, and `any_schema`: whether it starts on a schema without a guard."""


class Worker:
    """One worker process. Signals go to a pidfd, which never means a later process with the same pid."""

    def __init__(self, pid: int, log: Path, slot: int) -> None:
        self.pid = pid
        self.log = log
        self.slot = slot
        """The proxy through which it reaches the database."""
        self.is_frozen = False
        self.started_at = time.monotonic()
        self._pidfd = os.pidfd_open(pid)
        self._exit = select.poll()
        self._exit.register(self._pidfd, select.POLLIN)

    def __del__(self) -> None:
        os.close(self._pidfd)

    def is_alive(self) -> bool:
        return not self._exit.poll(0)

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._exit.poll()

    def freeze(self) -> None:
        self.is_frozen = True
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self.is_frozen = False
        self.send(signal.SIGCONT)


class ForkServer:
    """Starts workers. `clock`: seconds by which their clock is wrong."""

    def __init__(self, clock: float = 0.0) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("CLERK_", "PG", "DATABASE"))},
            "FAULTS_CLOCK": str(clock),
            "PYTHONPATH": str(ROOT),
        }
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            # Some libraries warn about the datetime of tests/faults/clock.py.
            [sys.executable, "-W", "ignore:datetime.datetime size changed", "-m", "tests.faults.torture.workers"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, spec: Spec, slot: int) -> Worker:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(spec) + "\n")
            self._process.stdin.flush()
            return Worker(int(self._process.stdout.readline()), Path(spec["log"]), slot)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _serve() -> None:
    from clerk.pipeline import connector  # imported before the first fork
    from tests.faults.torture.app import app

    children: set[int] = set()
    while line := _read_line(children):
        spec = json.loads(line)
        if (pid := os.fork()) == 0:
            _run_worker(app, connector, spec)
        children.add(pid)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _read_line(children: set[int]) -> bytes:
    """Reap children until there is a line. Only one is ever under way: the next one is sent after the reply."""
    line = b""
    while not line.endswith(b"\n"):
        for pid in list(children):
            if os.waitpid(pid, os.WNOHANG)[0]:
                children.discard(pid)
        if select.select([0], [], [], 0.1)[0]:
            data = os.read(0, 1 << 16)
            if not data:
                return b""
            line += data
    return line


def _run_worker(app: Any, connector: Any, spec: Spec) -> None:
    code = 1
    try:
        log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.environ |= spec["environment"]
        if spec["any_schema"]:
            connector.require_known_schema = lambda connection, folder: None
        app.run_worker(**spec["options"])
        code = 0
    except BaseException as error:  # noqa: BLE001 (the child must not return into the parent's loop)
        sys.stderr.write(f"{time.time():.1f} the worker ended with {type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
