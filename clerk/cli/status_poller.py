"""Thread of `clerk up` that polls the pipeline's status, starts the sites that are due, and updates the display."""

from __future__ import annotations

import logging
import threading
import time

import psycopg

from clerk.cli.connection import Connection
from clerk.cli.up_display import STARTING, Display
from clerk.config import Settings
from clerk.db.connection import connect, read_only_snapshot
from clerk.errors import ClerkError
from clerk.monitoring.status import SlowStats, read_slow_stats, read_status
from clerk.pipeline import engine
from clerk.process.supervisor import Supervisor

logger = logging.getLogger(__name__)

_INTERVAL = 1.0
_MAX_LOAD = 0.1
"""Share of the time spent in queries: with ten thousand sites a poll takes longer, and the interval grows."""
_SLOW_INTERVAL = 60.0
_MAX_STARTS = 20
"""Sites started per poll."""
_RETRY_DELAY = 2.0


class StatusPoller(threading.Thread):
    """A thread of its own, so that the supervisor does not wait for a database that does not respond."""

    def __init__(self, settings: Settings, display: Display, supervisor: Supervisor) -> None:
        super().__init__(name="status-poller", daemon=True)
        self.settings = settings
        self.display = display
        self.supervisor = supervisor
        self.is_idle = False
        self.error: BaseException | None = None
        """Unexpected error, which the main thread raises."""
        self._stop_requested = threading.Event()
        self._slow: SlowStats | None = None
        self._slow_read_at = 0.0

    def run(self) -> None:
        try:
            while not self._stop_requested.is_set():
                self._poll_until_disconnected()
        except BaseException as error:  # noqa: BLE001 (the main thread raises it)
            self.error = error

    def stop(self) -> None:
        self._stop_requested.set()
        self.join()
        self.display.close()

    def _poll_until_disconnected(self) -> None:
        try:
            with connect(self.settings) as connection:
                while not self._stop_requested.is_set():
                    began = time.monotonic()
                    self._poll(connection)
                    self._stop_requested.wait(max(_INTERVAL, (time.monotonic() - began) / _MAX_LOAD))
        except (ClerkError, psycopg.OperationalError) as error:
            logger.warning("%s", error)
            self.is_idle = False
            self.display.show_error(str(error))
            self._stop_requested.wait(_RETRY_DELAY)

    def _poll(self, connection: Connection) -> None:
        # The periodic task of the workers starts due sites too, but only once a minute.
        for _ in range(_MAX_STARTS):
            if self.supervisor.stopping or engine.start_next_due_site(connection) is None:
                break
        with read_only_snapshot(connection):
            if self._slow is None or time.monotonic() > self._slow_read_at + _SLOW_INTERVAL:
                self._slow, self._slow_read_at = read_slow_stats(connection), time.monotonic()
            status = read_status(connection, self._slow)
        self.is_idle = status.open_jobs == 0
        self.display.show(status, self._state())

    def _state(self) -> str:
        if self.supervisor.stopping:
            return "is stopping: running jobs are being finished"
        return "is up" if self.supervisor.all_ready else STARTING
