"""Process supervisor: starts child processes, forwards signals, restarts any that exit or miss their heartbeat.

A child whose event loop is blocked (by a plugin that holds the interpreter lock) cannot exit by itself. It stops
sending heartbeats, and the supervisor kills it.

Limitation: if the supervisor is killed with SIGKILL, its children see end-of-file on stdin and shut down after their
current jobs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from clerk.process import parent_death, prctl, sd_notify

logger = logging.getLogger(__name__)

HEARTBEAT_TIMEOUT = 120.0
"""Seconds. Children send a heartbeat every few seconds; after this time the leases of their jobs have expired too."""
_INITIAL_BACKOFF, _MAX_BACKOFF = 1.0, 60.0
_STABLE_AFTER = 60.0
"""Seconds after which an exit does not count as a repeated failure: the backoff starts again."""
_POLL_INTERVAL = 0.2


@dataclass(frozen=True)
class ProcessSpec:
    """A child process: a clerk command and its name in the log."""

    name: str
    arguments: tuple[str, ...]


class _Child:
    """A child process and its restarts."""

    def __init__(self, spec: ProcessSpec, receiver: sd_notify.NotifyReceiver, output: IO[str] | None) -> None:
        self.spec = spec
        self.receiver = receiver
        self.output = output
        self.process: subprocess.Popen[bytes] | None = None
        self.backoff = _INITIAL_BACKOFF
        self.started_at = self.start_at = time.monotonic()

    def start(self) -> None:
        self.receiver.reset()
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clerk", *self.spec.arguments],
            env={**os.environ, sd_notify.ADDRESS: str(self.receiver.address), **parent_death.ENV},
            stdin=subprocess.PIPE,
            stdout=self.output,
            stderr=self.output,
            # A new session, so that Ctrl-C reaches only the supervisor, which forwards it once.
            start_new_session=True,
        )

    def poll(self, heartbeat_timeout: float) -> int | None:
        """The exit code if the process has exited. Kills a process that missed its heartbeat."""
        if self.process is None:
            return None
        code = self.process.poll()
        if code is None:
            self.receiver.drain()
            if self.receiver.timed_out(heartbeat_timeout):
                logger.error("%s (process %s) missed its heartbeat: killing it", self.spec.name, self.process.pid)
                self.process.kill()
            return None
        self._release()
        return code

    def wait(self) -> None:
        if self.process is not None:
            self.process.wait()
            self._release()

    def _release(self) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process = None

    def schedule_restart(self) -> float:
        """Returns the delay in seconds."""
        delay = self.backoff if time.monotonic() - self.started_at < _STABLE_AFTER else _INITIAL_BACKOFF
        self.backoff = min(2 * delay, _MAX_BACKOFF)
        self.start_at = time.monotonic() + delay
        return delay


class Supervisor:
    def __init__(
        self,
        specs: list[ProcessSpec],
        heartbeat_timeout: float = HEARTBEAT_TIMEOUT,
        output: IO[str] | None = None,
    ) -> None:
        """`output` is the children's stdout and stderr; by default they inherit the supervisor's."""
        self.specs = specs
        self.heartbeat_timeout = heartbeat_timeout
        self.output = output
        self.stopping = self.kill_now = False
        self.all_ready = False
        """Whether all children have been ready at the same time."""
        self._children: list[_Child] = []

    def run(self, should_stop: Callable[[], bool] | None = None) -> None:
        """Run until a signal arrives or `should_stop` returns True. A second Ctrl-C kills all children and raises
        KeyboardInterrupt."""
        prctl.disable_dumps()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, self._on_signal)
        with tempfile.TemporaryDirectory(prefix="clerk-") as folder, contextlib.ExitStack() as receivers:
            for index, spec in enumerate(self.specs):
                receiver = sd_notify.NotifyReceiver(Path(folder, str(index)))
                receivers.enter_context(contextlib.closing(receiver))
                self._children.append(_Child(spec, receiver, self.output))
            try:
                self._loop(should_stop)
            finally:
                # Also after an error: no child may outlive the supervisor.
                self._terminate_all()
                for child in self._children:
                    child.wait()

    def _on_signal(self, number: int, *_: object) -> None:
        self.kill_now |= self.stopping and number == signal.SIGINT
        self.stopping = True

    def _loop(self, should_stop: Callable[[], bool] | None) -> None:
        terminated = False
        while not self.stopping or any(child.process for child in self._children):
            if should_stop is not None and not self.stopping and should_stop():
                self.stopping = True
            if self.kill_now:
                self._kill_all()
                raise KeyboardInterrupt
            if self.stopping and not terminated:
                sd_notify.notify(sd_notify.STOPPING)
                self._terminate_all()
                terminated = True
            for child in self._children:
                self._tick(child)
            self.all_ready = self.all_ready or all(child.receiver.is_ready for child in self._children)
            if self.all_ready and not self.stopping:
                sd_notify.notify(sd_notify.ALIVE)
            time.sleep(_POLL_INTERVAL)

    def _tick(self, child: _Child) -> None:
        pid = child.process.pid if child.process else None
        code = child.poll(self.heartbeat_timeout)
        if code is not None and not self.stopping:
            delay = child.schedule_restart()
            logger.error("%s (process %s) %s: restarting it in %.0f s", child.spec.name, pid, _describe(code), delay)
        if child.process is None and not self.stopping and time.monotonic() >= child.start_at:
            child.start()

    def _terminate_all(self) -> None:
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(signal.SIGTERM)

    def _kill_all(self) -> None:
        """Kill all children and their descendants: a deploy command has its own session."""
        for child in self._children:
            if child.process is not None:
                for pid in [child.process.pid, *_descendants(child.process.pid)]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def _describe(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def _descendants(pid: int) -> Iterator[int]:
    for child in _child_pids(pid):
        yield child
        yield from _descendants(child)


def _child_pids(pid: int) -> list[int]:
    if sys.platform == "linux":
        files = Path(f"/proc/{pid}/task").glob("*/children")
        with contextlib.suppress(FileNotFoundError):  # the process has exited
            return [int(child) for file in files for child in file.read_text().split()]
        return []
    result = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in result.stdout.split()]
