"""What the body of a job needs of the worker around it: connections, and word that the job is still its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import procrastinate
import psycopg
from procrastinate import exceptions

from clerk.config import Settings
from clerk.errors import ClaimLost
from clerk.pipeline import engine
from clerk.pipeline.connector import ClerkConnector


class JobContext:
    def __init__(self, context: procrastinate.JobContext) -> None:
        assert isinstance(context.app.connector, ClerkConnector)
        self._context = context
        self._connector = context.app.connector

    @property
    def settings(self) -> Settings:
        return self._connector.settings

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        with self._connector.connection() as connection:
            yield connection

    def raise_if_cancelled(self) -> None:
        if self._context.should_abort():
            raise exceptions.JobAborted

    def require(self, done: int = 0, total: int | None = None) -> None:
        """Renews the lease and reports how far the job is; raises ClaimLost if it is no longer ours."""
        job = self._context.job
        assert job.id is not None
        self.raise_if_cancelled()
        with self.connection() as connection:
            if not engine.report_progress(connection, job.id, job.attempts, done, total):
                raise ClaimLost(f"job {job.id} (attempt {job.attempts}) is no longer this worker's")
