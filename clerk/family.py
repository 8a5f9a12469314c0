"""A family of worker processes: the parent starts its members, passes signals on, and replaces who dies or hangs.

A member whose event loop stands still (a plugin that does not let go of the interpreter) cannot end itself, and would
keep its place for ever. It falls silent, and that is how the parent finds it.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clerk import sd_notify

logger = logging.getLogger(__name__)

SILENT_AFTER = 120.0
"""Seconds. A member speaks every few; by then the leases of what it was doing are over too."""
_RESTART_PAUSE = 1.0
_LOOK_EVERY = 0.2


@dataclass(frozen=True)
class Member:
    """One process of the family."""

    queues: tuple[str, ...]
    concurrency: int


class Family:
    def __init__(self, members: list[Member], options: list[str], silent_after: float = SILENT_AFTER) -> None:
        self.members = members
        self.options = options
        self.silent_after = silent_after
        self.stopping = self.were_ready = False
        self.children: dict[int, subprocess.Popen[bytes]] = {}
        self.ears: list[sd_notify.Ear] = []

    def run(self, until: Callable[[], bool] | None) -> None:
        """Until a signal comes or, in a burst, until there is nothing left to do."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        with tempfile.TemporaryDirectory(prefix="clerk-") as folder, contextlib.ExitStack() as open_ears:
            for index in range(len(self.members)):
                self.ears.append(open_ears.enter_context(contextlib.closing(sd_notify.Ear(Path(folder, str(index))))))
                self._start(index)
            try:
                self._look_after_all(until)
            finally:
                # Whatever went wrong here, no worker is left behind.
                self._stop()
                for child in self.children.values():
                    child.wait()

    def _look_after_all(self, until: Callable[[], bool] | None) -> None:
        said_stopping = False
        while self.children:
            if until is not None and not self.stopping and until():
                self._stop()
            for index, child in list(self.children.items()):
                self._look_after(index, child)
            if self.stopping and not said_stopping:
                sd_notify.notify(sd_notify.STOPPING)
                said_stopping = True
            self.were_ready = self.were_ready or all(ear.is_ready for ear in self.ears)
            if self.were_ready and not self.stopping:
                sd_notify.notify(sd_notify.ALIVE)

    def _look_after(self, index: int, child: subprocess.Popen[bytes]) -> None:
        ear = self.ears[index]
        try:
            code = child.wait(timeout=_LOOK_EVERY)
        except subprocess.TimeoutExpired:
            ear.listen()
            if ear.is_silent_for(self.silent_after):
                logger.error("worker process %s has fallen silent: ending it", child.pid)
                child.kill()
            return
        del self.children[index]
        if not self.stopping:
            logger.error("worker process %s ended with %s: starting another", child.pid, code)
            time.sleep(_RESTART_PAUSE)
        if not self.stopping:
            self._start(index)

    def _start(self, index: int) -> None:
        member, ear = self.members[index], self.ears[index]
        ear.expect_another()
        # A session of its own: Ctrl-C reaches the parent alone, which passes it on once.
        self.children[index] = subprocess.Popen(
            [
                *(sys.executable, "-m", "clerk", "worker", "--processes", "1"),
                *("--queues", ",".join(member.queues), "--concurrency", str(member.concurrency)),
                *self.options,
            ],
            env={**os.environ, sd_notify.ADDRESS: str(ear.address)},
            start_new_session=True,
        )
        if self.stopping:  # the signal came between the last look and here, and has not reached this one
            self.children[index].send_signal(signal.SIGTERM)

    def _stop(self, *_: object) -> None:
        self.stopping = True
        for child in self.children.values():
            child.send_signal(signal.SIGTERM)
