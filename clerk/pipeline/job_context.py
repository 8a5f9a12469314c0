"""The job that a task works on: its arguments, settings, database connections, heartbeat and cancellation."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

import procrastinate
import psycopg
from procrastinate import exceptions

from clerk.config import Settings
from clerk.error_causes import is_transient
from clerk.errors import ClaimLost
from clerk.pipeline import engine
from clerk.pipeline.connector import ClerkConnector

logger = logging.getLogger(__name__)
_ABORT_INTERVAL = 1.0


class JobContext:
    """Wraps Procrastinate's job context. Its methods may be called from any thread."""

    def __init__(self, context: procrastinate.JobContext) -> None:
        assert isinstance(context.app.connector, ClerkConnector)
        self._context = context
        self._connector = context.app.connector
        self._arguments: dict[str, Any] = context.job.task_kwargs

    @property
    def settings(self) -> Settings:
        return self._connector.settings

    @property
    def subdomain(self) -> str:
        return str(self._arguments["subdomain"])

    @property
    def run_id(self) -> int:
        return int(self._arguments["run_id"])

    @property
    def stage(self) -> str:
        return str(self._arguments["stage"])

    @property
    def content_item_id(self) -> int:
        return int(self._arguments["content_item_id"])

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A pooled connection in autocommit mode."""
        with self._connector.connection() as connection:
            yield connection

    @contextlib.contextmanager
    def session(self) -> Iterator[psycopg.Connection[Any]]:
        """A new connection with a session of its own, for session locks and session settings."""
        with self._connector.session() as connection:
            yield connection

    @contextlib.contextmanager
    def cancel_on_abort(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Cancel the statement of a connection when the job is asked to stop: for statements that take minutes."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_ABORT_INTERVAL):
                if self._context.should_abort():
                    connection.cancel_safe()
                    return

        watcher = threading.Thread(target=watch, name="cancel on abort", daemon=True)
        watcher.start()
        try:
            yield
        except psycopg.errors.QueryCanceled:
            self.raise_if_cancelled()
            raise
        finally:
            ended.set()
            watcher.join()

    def raise_if_cancelled(self) -> None:
        if self._context.should_abort():
            raise exceptions.JobAborted

    def heartbeat(self, done: int = 0, total: int | None = None) -> None:
        """Renew the lease and record progress. Call it before a change that others can see: raises ClaimLost if
        another worker holds the job."""
        job = self._context.job
        assert job.id is not None
        self.raise_if_cancelled()
        with self.connection() as connection:
            if not engine.report_progress(connection, job.id, job.attempts, done, total):
                raise ClaimLost(f"job {job.id} (attempt {job.attempts}) no longer belongs to this worker")

    def report_progress(self, done: int, total: int) -> None:
        """A heartbeat that tolerates a database outage: work done so far is kept, and the worker renews the lease when
        the database is back."""
        try:
            self.heartbeat(done, total)
        except psycopg.Error as error:
            if not is_transient(error):
                raise
            logger.warning("progress not recorded, the database is unavailable: %s", error)
