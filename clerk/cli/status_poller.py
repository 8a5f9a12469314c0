"""Looks at the pipeline again and again beside whatever the main thread does, starts what is due, and shows it."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import psycopg

from clerk.cli.up_display import Display
from clerk.config import Settings
from clerk.db.connection import connect
from clerk.errors import ClerkError
from clerk.monitoring.live_status import read_live_status
from clerk.pipeline import engine
from clerk.process.supervisor import Supervisor

logger = logging.getLogger(__name__)

_LOOK_EVERY = 1.0
_SHARE = 0.1
"""Of the time at most is spent asking: on ten thousand sites a look takes longer, and comes less often."""
_STARTED_AT_ONCE = 20
_AGAIN_AFTER = 2.0


class StatusPoller(threading.Thread):
    """A thread, since a database that hangs must not keep anybody from looking after the processes."""

    def __init__(self, settings: Settings, display: Display, family: Supervisor) -> None:
        super().__init__(name="watch", daemon=True)
        self.settings = settings
        self.display = display
        self.family = family
        self.is_idle = False
        self.error: BaseException | None = None
        """What nobody foresaw."""
        self._over = threading.Event()

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._look_until_cut_off()
        except BaseException as error:  # noqa: BLE001 (the main thread raises it)
            self.error = error

    def end(self) -> None:
        self._over.set()
        self.join()
        self.display.close()

    def _look_until_cut_off(self) -> None:
        try:
            with connect(self.settings) as connection:
                while not self._over.is_set():
                    began = time.monotonic()
                    self._look(connection)
                    self._over.wait(max(_LOOK_EVERY, (time.monotonic() - began) / _SHARE))
        except (ClerkError, psycopg.OperationalError) as error:
            logger.warning("%s", error)
            self.is_idle = False
            self.display.trouble(str(error))
            self._over.wait(_AGAIN_AFTER)

    def _look(self, connection: psycopg.Connection[Any]) -> None:
        """A site that was just added is due. The clock of the workers would come to it too, within a minute."""
        for _ in range(_STARTED_AT_ONCE):
            if self.family.stopping or engine.start_next_due_site(connection) is None:
                break
        pulse = read_live_status(connection)
        self.is_idle = pulse.open_jobs == 0
        self.display.show(pulse, self._state())

    def _state(self) -> str:
        if self.family.stopping:
            return "is stopping: running jobs are being finished"
        return "is up" if self.family.all_ready else "is starting"
