"""Procrastinate connector: autocommit, no check at checkout, retries transient errors for five minutes.

Transient errors are those of a restarting server, a lost connection, a deadlock or a timeout (`clerk.error_causes`).
Any other database error ends the worker. Every statement has a deadline, because the response to a statement on a
half-open connection never arrives: after it the connection is closed, and the error is transient. Autocommit is set by
the pool's `configure`: in `kwargs` it would stop Procrastinate's listener without an error.

Limitation: a statement whose response was lost may run twice. `clerk.pipeline.job_manager` makes that safe for
finishing and fetching jobs; a `defer` is delivered at least once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
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
from clerk.error_causes import is_transient
from clerk.pipeline.deadline import AsyncConnectionWithDeadline, ConnectionWithDeadline
from clerk.process.holder import new_holder

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

RETRY_DEADLINE = 300.0
"""Seconds for which a statement is retried, and after which a worker without a response of the database exits."""
_INITIAL_BACKOFF, _MAX_BACKOFF = 0.05, 5.0
_LISTENER_BACKOFF = 0.2
# The kernel detects a half-open connection within a minute.
_KEEPALIVE = {
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "connect_timeout": 10,
}
_CHECK_DEADLINE = 5.0

# By a statement, because PgBouncer rejects them as startup options. JIT compilation costs more than any of clerk's
# queries, and Postgres chooses it for tables that it believes to be large. The others end a session whose client has
# vanished or hangs, so that it does not keep its locks; each is shorter than the client's own deadline.
_SESSION_SETTINGS = """
select set_config('search_path', 'public', false), set_config('jit', 'off', false),
       set_config('statement_timeout', (%(seconds)s * 900)::bigint::text, false),
       set_config('idle_in_transaction_session_timeout', '10min', false),
       set_config('tcp_keepalives_idle', '20', false), set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '30s', false)
"""


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
        """application_name of this process, which identifies the holder of a claim. A new one for each opening, so that
        a forked process never shares it."""
        self.unknown_outcomes = 0
        """Number of statements that ended in a broken connection, so that it is unknown whether they were executed."""
        self.listener_alive_at = time.monotonic()
        """Time of the listener's last round trip."""
        self._stack = contextlib.ExitStack()
        self._job_pool: psycopg_pool.ConnectionPool[Any] | None = None
        self._job_pool_lock = threading.Lock()
        self._url: str | None = None
        self.statement_deadline = 60.0
        """Seconds after which a statement of the worker counts as lost."""
        self.job_statement_deadline = 600.0
        """The same for a statement of a task, which may start a phase of 100,000 documents."""

    @cached_property
    def settings(self) -> config.Settings:
        """Loaded on first use, so that an invalid setting does not prevent importing the app."""
        return config.load()

    def _prepare(self) -> None:
        """Find the database, start the embedded one if needed, and reject a schema of another version."""
        if self._url is not None:
            return
        url = self._stack.enter_context(database_url(self.settings))
        with connect_to(url) as connection:
            require_known_schema(connection, default_folder())
        self.holder = new_holder()
        self._url = url
        self._pool_args |= {
            "conninfo": url,
            "kwargs": {"application_name": self.holder, **_KEEPALIVE},
            "connection_class": AsyncConnectionWithDeadline,
        }

    async def _configure(self, connection: psycopg.AsyncConnection[Any]) -> None:
        assert isinstance(connection, AsyncConnectionWithDeadline)
        connection.deadline = self.statement_deadline
        await connection.set_autocommit(True)
        await connection.execute(_SESSION_SETTINGS, {"seconds": connection.deadline})

    def _configure_job_connection(self, connection: psycopg.Connection[Any]) -> None:
        assert isinstance(connection, ConnectionWithDeadline)
        connection.deadline = self.job_statement_deadline
        connection.execute(_SESSION_SETTINGS, {"seconds": connection.deadline})

    def _check_job_connection(self, connection: psycopg.Connection[Any]) -> None:
        assert isinstance(connection, ConnectionWithDeadline)
        deadline, connection.deadline = connection.deadline, min(connection.deadline, _CHECK_DEADLINE)
        psycopg_pool.ConnectionPool.check_connection(connection)
        connection.deadline = deadline

    def _get_job_connection(self, pool: psycopg_pool.ConnectionPool[Any]) -> psycopg.Connection[Any]:
        """A connection that works. After a restart of the server every idle one is broken: each is discarded at once,
        while the pool's own check waits longer after each, for up to 31 seconds in all."""
        give_up_at = time.monotonic() + pool.timeout
        while True:
            connection: psycopg.Connection[Any] = pool.getconn(give_up_at - time.monotonic())
            try:
                self._check_job_connection(connection)
            except psycopg.Error as error:
                logger.info("discarding a broken connection: %s", error)
                connection.close()
                pool.putconn(connection)
            except BaseException:
                pool.putconn(connection)
                raise
            else:
                return connection

    async def open_async(self, pool: psycopg_pool.AsyncConnectionPool | None = None) -> None:
        if pool is None:
            await asyncio.to_thread(self._prepare)
        await super().open_async(pool)

    async def close_async(self) -> None:
        await super().close_async()
        if self._job_pool is not None:
            await asyncio.to_thread(self._job_pool.close)
            self._job_pool = None
        self._url = None
        await asyncio.to_thread(self._stack.close)

    async def _create_pool(self, pool_args: dict[str, Any]) -> psycopg_pool.AsyncConnectionPool:
        return psycopg_pool.AsyncConnectionPool(**pool_args, open=False)

    def get_sync_connector(self) -> BaseConnector:
        """For code without an event loop: the Procrastinate shell, and scripts that defer jobs."""
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
        """A connection for a task, which runs in a thread. It was checked: a restart of the server while the worker was
        idle costs no job an attempt."""
        with self._job_pool_lock:
            if self._job_pool is None:
                self._prepare()
                self._job_pool = psycopg_pool.ConnectionPool(
                    str(self._url),
                    kwargs={**self._pool_args["kwargs"], "autocommit": True},
                    connection_class=ConnectionWithDeadline,
                    configure=self._configure_job_connection,
                    min_size=0,
                    max_size=16,
                    open=True,
                )
        pool = self._job_pool
        connection = self._get_job_connection(pool)
        try:
            with connection:
                yield connection
        finally:
            pool.putconn(connection)

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

    async def execute_once(self, query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
        """Like execute_query_all_async, but never retried."""
        try:
            rows: list[dict[str, Any]] = await super().execute_query_all_async(query, **arguments)
        except exceptions.ConnectorException as error:
            self._count_unknown_outcome(error.__cause__)
            raise
        return rows

    async def _retry_transient(self, run: Callable[[], Awaitable[Result]]) -> Result:
        deadline = time.monotonic() + RETRY_DEADLINE
        backoff = _INITIAL_BACKOFF
        while True:
            try:
                return await run()
            except exceptions.ConnectorException as error:
                if not is_transient(error.__cause__) or time.monotonic() > deadline:
                    raise
                self._log_transient(error.__cause__)
            except psycopg.Error as error:
                # Procrastinate does not wrap errors of the pool.
                if not is_transient(error) or time.monotonic() > deadline:
                    raise
                self._log_transient(error)
            await asyncio.sleep(random.uniform(0.5, 1.0) * backoff)  # noqa: S311 (jitter)
            backoff = min(backoff * 2, _MAX_BACKOFF)

    def _log_transient(self, error: BaseException | None) -> None:
        logger.warning("transient database error, retrying: %s", str(error).strip().splitlines()[:1])
        self._count_unknown_outcome(error)

    def _count_unknown_outcome(self, error: BaseException | None) -> None:
        if isinstance(error, psycopg_pool.PoolTimeout | psycopg.errors.LockNotAvailable):
            return  # not executed, or rolled back
        if isinstance(error, psycopg.OperationalError):
            self.unknown_outcomes += 1

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        """Like Procrastinate's, but a database outage does not end the listener."""
        channels = list(channels)
        backoff = _LISTENER_BACKOFF
        while True:
            try:
                await super().listen_notify(on_notification, channels)
            except exceptions.ConnectorException as error:
                if not is_transient(error.__cause__):
                    raise
                logger.warning("the listener lost its connection, reconnecting: %s", error.__cause__)
            except psycopg.Error as error:
                if not is_transient(error):
                    raise
                logger.warning("the listener lost its connection, reconnecting: %s", error)
            await asyncio.sleep(random.uniform(0.5, 1.0) * backoff)  # noqa: S311 (jitter)
            backoff = min(backoff * 2, _MAX_BACKOFF)

    async def _loop_notify(
        self, on_notification: Notify, connection: psycopg.AsyncConnection[Any], timeout: float = 10.0
    ) -> None:
        """Like Procrastinate's, but records every round trip: an idle queue has no notifications for hours."""
        while True:
            self.listener_alive_at = time.monotonic()
            async for notification in connection.notifies(timeout=timeout):
                await on_notification(channel=notification.channel, payload=notification.payload)
            await connection.execute("select 1")
