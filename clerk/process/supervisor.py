"""A family of processes: the parent starts its members, passes signals on, and replaces who dies or hangs.

A member whose event loop stands still (a plugin that does not let go of the interpreter) cannot end itself, and would
keep its place for ever. It falls silent, and that is how the parent finds it.

The catch: a parent that is killed outright leaves its members to their lifelines. They finish what they are doing.
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

from clerk.process import parent_death, sd_notify

logger = logging.getLogger(__name__)

HEARTBEAT_TIMEOUT = 120.0
"""Seconds. A member speaks every few; by then the leases of what it was doing are over too."""
_INITIAL_BACKOFF, _MAX_BACKOFF = 1.0, 60.0
_LIVED = 60.0
"""Who ends sooner than this, again and again, is waited for longer and longer."""
_POLL_INTERVAL = 0.2


@dataclass(frozen=True)
class ProcessSpec:
    """One process of the family: a clerk command."""

    name: str
    arguments: tuple[str, ...]


class _Child:
    """Where a member lives: its process of the moment, and the next one if that ends."""

    def __init__(self, member: ProcessSpec, ear: sd_notify.NotifyReceiver, output: IO[str] | None) -> None:
        self.member = member
        self.ear = ear
        self.output = output
        self.child: subprocess.Popen[bytes] | None = None
        self.pause = _INITIAL_BACKOFF
        self.started_at = self.start_at = time.monotonic()

    def start(self) -> None:
        self.ear.reset()
        self.started_at = time.monotonic()
        self.child = subprocess.Popen(
            [sys.executable, "-m", "clerk", *self.member.arguments],
            env={**os.environ, sd_notify.ADDRESS: str(self.ear.address), **parent_death.ENV},
            stdin=subprocess.PIPE,
            stdout=self.output,
            stderr=self.output,
            # A session of its own: Ctrl-C reaches the parent alone, which passes it on once.
            start_new_session=True,
        )

    def look(self, silent_after: float) -> int | None:
        """The exit code of the process if it has ended since the last look."""
        if self.child is None:
            return None
        code = self.child.poll()
        if code is None:
            self.ear.listen()
            if self.ear.timed_out(silent_after):
                logger.error("%s (process %s) has fallen silent: ending it", self.member.name, self.child.pid)
                self.child.kill()
            return None
        self._leave()
        return code

    def wait(self) -> None:
        if self.child is not None:
            self.child.wait()
            self._leave()

    def _leave(self) -> None:
        assert self.child is not None
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.child = None

    def schedule_restart(self) -> float:
        """How long to wait before the next start."""
        pause = self.pause if time.monotonic() - self.started_at < _LIVED else _INITIAL_BACKOFF
        self.pause = min(2 * pause, _MAX_BACKOFF)
        self.start_at = time.monotonic() + pause
        return pause


class Supervisor:
    def __init__(
        self, members: list[ProcessSpec], silent_after: float = HEARTBEAT_TIMEOUT, output: IO[str] | None = None
    ) -> None:
        """`output` is where the members write; to where we do, if it is not said."""
        self.members = members
        self.silent_after = silent_after
        self.output = output
        self.stopping = self.at_once = False
        self.were_ready = False
        self._places: list[_Child] = []

    def run(self, enough: Callable[[], bool] | None = None) -> None:
        """Until a signal comes or `enough` says so. A second Ctrl-C ends all at once, and is a KeyboardInterrupt."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self._hear)
        with tempfile.TemporaryDirectory(prefix="clerk-") as folder, contextlib.ExitStack() as open_ears:
            for index, member in enumerate(self.members):
                ear = open_ears.enter_context(contextlib.closing(sd_notify.NotifyReceiver(Path(folder, str(index)))))
                self._places.append(_Child(member, ear, self.output))
            try:
                self._look_after_all(enough)
            finally:
                # Whatever went wrong here, nobody is left behind.
                self._tell_to_stop()
                for place in self._places:
                    place.wait()

    def _hear(self, number: int, *_: object) -> None:
        self.at_once |= self.stopping and number == signal.SIGINT
        self.stopping = True

    def _look_after_all(self, enough: Callable[[], bool] | None) -> None:
        told = False
        while not self.stopping or any(place.child for place in self._places):
            if enough is not None and not self.stopping and enough():
                self.stopping = True
            if self.at_once:
                self._kill_all()
                raise KeyboardInterrupt
            if self.stopping and not told:
                sd_notify.notify(sd_notify.STOPPING)
                self._tell_to_stop()
                told = True
            for place in self._places:
                self._look_after(place)
            self.were_ready = self.were_ready or all(place.ear.is_ready for place in self._places)
            if self.were_ready and not self.stopping:
                sd_notify.notify(sd_notify.ALIVE)
            time.sleep(_POLL_INTERVAL)

    def _look_after(self, place: _Child) -> None:
        pid = place.child.pid if place.child else None
        code = place.look(self.silent_after)
        if code is not None and not self.stopping:
            pause = place.schedule_restart()
            logger.error("%s (process %s) %s: another starts in %.0f s", place.member.name, pid, _how(code), pause)
        if place.child is None and not self.stopping and time.monotonic() >= place.start_at:
            place.start()

    def _tell_to_stop(self) -> None:
        for place in self._places:
            if place.child is not None:
                place.child.send_signal(signal.SIGTERM)

    def _kill_all(self) -> None:
        """With all that they started: a deployer's command lives in a session of its own."""
        for place in self._places:
            if place.child is not None:
                for pid in [place.child.pid, *_descendants(place.child.pid)]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def _how(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _children(pid: int) -> list[int]:
    if sys.platform == "linux":
        files = Path(f"/proc/{pid}/task").glob("*/children")
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            return [int(child) for file in files for child in file.read_text().split()]
        return []
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in found.stdout.split()]
