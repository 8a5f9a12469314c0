"""The worker's way to the database: quick when all is well, stubborn when it is not.

Quick: connections are in autocommit (set by the pool's `configure`, since in `kwargs` it would silently kill
Procrastinate's listener) and are not checked at every checkout. Stubborn: whatever a restarting server, a lost
connection, a deadlock or a busy lock can do to a statement is waited out, for `PATIENCE` at most. Any other error
of the database still ends the worker, loudly.

The catch: a statement whose answer got lost may run twice. Finishing and fetching are made safe against that in
`clerk.pipeline.job_manager`; a plain `defer` is delivered at least once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, LiteralString, TypeVar

import psycopg
import psycopg_pool
from procrastinate import PsycopgConnector, exceptions
from procrastinate.connector import BaseConnector, Notify

from clerk import config
from clerk.db.connection import connect_to, database_url
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

RETRY_DEADLINE = 600.0
_TRANSIENT_CODES = {"40P01", "40001", "55P03", "53300", "57014"}
_TRANSIENT_CLASSES = ("08", "57P")
# A half-open connection is noticed by the kernel within a minute instead of within minutes.
_KEEPALIVE = {"keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 30_000}


def is_transient(error: BaseException | None) -> bool:
    """Will the same statement have a chance in a moment?"""
    if isinstance(error, psycopg_pool.PoolTimeout):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    code = error.sqlstate
    if code is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return code in _TRANSIENT_CODES or code.startswith(_TRANSIENT_CLASSES)


def _look_in_public(connection: psycopg.Connection[Any]) -> None:
    """A statement, not a startup option: PgBouncer refuses those."""
    connection.execute("set search_path = public")


class ClerkConnector(PsycopgConnector):
    def __init__(self) -> None:
        super().__init__(
            min_size=1,
            max_size=8,
            timeout=5.0,
            max_waiting=0,
            configure=self._configure,
            reconnect_timeout=RETRY_DEADLINE,
        )
        self.holder = ""
        """application_name of this process: who holds a claim. New with every opening, so a fork never shares it."""
        self.unknown_outcomes = 0
        """Statements that ended in a broken connection: what they did is unknown until asked."""
        self.listener_heard_at = time.monotonic()
        self._stack = contextlib.ExitStack()
        self._body_pool: psycopg_pool.ConnectionPool[Any] | None = None
        self._body_pool_lock = threading.Lock()
        self._url: str | None = None

    @cached_property
    def settings(self) -> config.Settings:
        """Read when first needed: importing the app must not fail over a setting that nobody uses yet."""
        return config.load()

    def _prepare(self) -> None:
        """Find the database, start the embedded one if need be, and refuse a schema that we do not know."""
        if self._url is not None:
            return
        url = self._stack.enter_context(database_url(self.settings))
        with connect_to(url) as connection:
            require_known_schema(connection, default_folder())
        # The unique part first: names are cut at 63 bytes.
        self.holder = f"{uuid.uuid4().hex[:12]} clerk {os.getpid()} {socket.gethostname()}"[:63]
        self._url = url
        self._pool_args |= {"conninfo": url, "kwargs": {"application_name": self.holder, **_KEEPALIVE}}

    @staticmethod
    async def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.set_autocommit(True)
        await connection.execute("set search_path = public")

    async def open_async(self, pool: psycopg_pool.AsyncConnectionPool | None = None) -> None:
        if pool is None:
            await asyncio.to_thread(self._prepare)
        await super().open_async(pool)

    async def close_async(self) -> None:
        await super().close_async()
        if self._body_pool is not None:
            await asyncio.to_thread(self._body_pool.close)
            self._body_pool = None
        self._url = None
        await asyncio.to_thread(self._stack.close)

    async def _create_pool(self, pool_args: dict[str, Any]) -> psycopg_pool.AsyncConnectionPool:
        return psycopg_pool.AsyncConnectionPool(**pool_args, open=False)

    def get_sync_connector(self) -> BaseConnector:
        """For code without an event loop: the shell, and deferring from scripts."""
        if self._async_pool or self._sync_connector:
            return super().get_sync_connector()
        self._prepare()
        from procrastinate import SyncPsycopgConnector

        self._sync_connector = SyncPsycopgConnector(
            conninfo=self._url, kwargs=self._pool_args["kwargs"], min_size=1, max_size=4
        )
        return self._sync_connector

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """For the body of a job, which runs in a thread: a connection under this process's name."""
        with self._body_pool_lock:
            if self._body_pool is None:
                self._prepare()
                self._body_pool = psycopg_pool.ConnectionPool(
                    str(self._url),
                    kwargs={**self._pool_args["kwargs"], "autocommit": True},
                    configure=_look_in_public,
                    min_size=0,
                    max_size=16,
                    open=True,
                )
        with self._body_pool.connection() as connection:
            yield connection

    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:
        await self._retry_transient(lambda: super(ClerkConnector, self).execute_query_async(query, **arguments))

    async def execute_query_one_async(self, query: LiteralString, **arguments: Any) -> dict[str, Any]:
        return await self._retry_transient(
            lambda: super(ClerkConnector, self).execute_query_one_async(query, **arguments)
        )

    async def execute_query_all_async(self, query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
        return await self._retry_transient(
            lambda: super(ClerkConnector, self).execute_query_all_async(query, **arguments)
        )

    async def _retry_transient(self, run: Callable[[], Awaitable[Result]]) -> Result:
        deadline = time.monotonic() + RETRY_DEADLINE
        pause = 0.05
        while True:
            try:
                return await run()
            except exceptions.ConnectorException as error:
                if not is_transient(error.__cause__) or time.monotonic() > deadline:
                    raise
                self._note(error.__cause__)
            except psycopg.Error as error:
                # The pool's own errors do not pass through Procrastinate's wrapper.
                if not is_transient(error) or time.monotonic() > deadline:
                    raise
                self._note(error)
            await asyncio.sleep(random.uniform(0.5, 1.0) * pause)  # noqa: S311 (jitter)
            pause = min(pause * 2, 5.0)

    def _note(self, error: BaseException | None) -> None:
        logger.warning("the database did not answer, trying again: %s", str(error).strip().splitlines()[:1])
        if isinstance(error, psycopg.OperationalError) and not isinstance(error, psycopg_pool.PoolTimeout):
            self.unknown_outcomes += 1

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        """As Procrastinate's, but a server that is away for a while does not end the listener for good."""
        channels = list(channels)
        pause = 0.2
        while True:
            try:
                await super().listen_notify(on_notification, channels)
            except exceptions.ConnectorException as error:
                if not is_transient(error.__cause__):
                    raise
                logger.warning("the listener lost its connection, trying again: %s", error.__cause__)
            except psycopg.Error as error:
                if not is_transient(error):
                    raise
                logger.warning("the listener lost its connection, trying again: %s", error)
            await asyncio.sleep(random.uniform(0.5, 1.0) * pause)  # noqa: S311 (jitter)
            pause = min(pause * 2, 5.0)

    async def _loop_notify(
        self, on_notification: Notify, connection: psycopg.AsyncConnection[Any], timeout: float = 10.0
    ) -> None:
        """Hears of every round trip, not of notifications alone: a quiet queue has none for hours."""
        while True:
            self.listener_heard_at = time.monotonic()
            async for notification in connection.notifies(timeout=timeout):
                await on_notification(channel=notification.channel, payload=notification.payload)
            await connection.execute("select 1")
