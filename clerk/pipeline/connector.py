"""Procrastinate connector: autocommit, no check at checkout, retries transient errors for CLERK_DATABASE_TIMEOUT.

Transient errors are those of a restarting or read-only server, a lost connection, a deadlock or a timeout
(`clerk.error_causes`). Connections are made only to a server that accepts writes: during a failover to none.
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
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, LiteralString, TypeVar

import psycopg
import psycopg_pool
from procrastinate import PsycopgConnector, exceptions
from procrastinate.connector import BaseConnector, Notify

from clerk import config
from clerk.db import pooler
from clerk.db.connection import (
    READ_WRITE,
    connect_to,
    database_url,
    require_read_write,
    require_usable_pool,
    wait_until_ready,
)
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.error_causes import is_transient
from clerk.pipeline.deadline import AsyncConnectionWithDeadline, ConnectionWithDeadline, StatementTimeout
from clerk.process.holder import new_holder

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

_INITIAL_BACKOFF, _MAX_BACKOFF = 0.05, 2.0
_RECONNECT_TIMEOUT = 5.0
"""Seconds. Short, so that the next statement starts a new attempt: a pool doubles the delay between its attempts, and
would notice the end of an outage of a minute up to a minute later."""
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


_STANDBY_INTERVAL = 2.0
_SESSIONS_WAITING_FOR_STANDBY = (
    "select pid from pg_stat_activity where application_name = %(holder)s and wait_event = 'SyncRep'"
)


class ClerkConnector(PsycopgConnector):
    def __init__(self) -> None:
        super().__init__(
            min_size=1,
            max_size=8,
            timeout=5.0,
            max_waiting=0,
            configure=self._configure,
            reconnect_timeout=_RECONNECT_TIMEOUT,
        )
        self.holder = ""
        """application_name of this process, which identifies the holder of a claim. A new one for each opening, so that
        a forked process never shares it."""
        self.unknown_outcomes = 0
        """Number of statements that ended in a broken connection, so that it is unknown whether they were executed.
        After a failover it is also unknown which earlier ones are still committed."""
        self.listener_alive_at = time.monotonic()
        """Time of the listener's last round trip."""
        self._stack = contextlib.ExitStack()
        self._job_pool: psycopg_pool.ConnectionPool[Any] | None = None
        self._job_pool_lock = threading.Lock()
        self._url: str | None = None
        self._direct_url: str | None = None
        """For connections that need a session."""
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
        direct_url = self.settings.direct_database_url or url
        setting = self.settings.direct_database_setting
        wait_until_ready(direct_url, self.settings.database_timeout, setting)
        with connect_to(direct_url, setting=setting) as connection:
            require_known_schema(connection, default_folder())
            require_usable_pool(self.settings, connection)
        self.holder = new_holder()
        self._url, self._direct_url = url, direct_url
        options = pooler.CLIENT_OPTIONS if self.settings.is_pooled else {}
        self._pool_args |= {
            "conninfo": url,
            "kwargs": {
                "application_name": self.holder,
                "target_session_attrs": READ_WRITE,
                **_KEEPALIVE,
                **options,
            },
            "connection_class": AsyncConnectionWithDeadline,
        }

    async def _configure(self, connection: psycopg.AsyncConnection[Any]) -> None:
        assert isinstance(connection, AsyncConnectionWithDeadline)
        connection.deadline = self.statement_deadline
        await connection.set_autocommit(True)
        # A pool without sessions would leave these settings to other clients.
        if not self.settings.is_pooled:
            await connection.execute(_SESSION_SETTINGS, {"seconds": connection.deadline})

    def _configure_job_connection(self, connection: psycopg.Connection[Any]) -> None:
        assert isinstance(connection, ConnectionWithDeadline)
        connection.deadline = self.job_statement_deadline
        if not self.settings.is_pooled:
            connection.execute(_SESSION_SETTINGS, {"seconds": connection.deadline})

    def _check_job_connection(self, connection: psycopg.Connection[Any]) -> None:
        assert isinstance(connection, ConnectionWithDeadline)
        deadline, connection.deadline = connection.deadline, min(connection.deadline, _CHECK_DEADLINE)
        psycopg_pool.ConnectionPool.check_connection(connection)
        require_read_write(connection)
        connection.deadline = deadline

    def _get_job_connection(self, pool: psycopg_pool.ConnectionPool[Any]) -> psycopg.Connection[Any]:
        """A connection that works. After a restart of the server every idle one is broken: each is discarded at once,
        while the pool's own check waits longer after each, for up to 31 seconds in all."""
        give_up_at = time.monotonic() + self.settings.database_timeout
        while True:
            remaining = give_up_at - time.monotonic()
            try:
                connection: psycopg.Connection[Any] = pool.getconn(min(remaining, _RECONNECT_TIMEOUT))
            except psycopg_pool.PoolTimeout:
                if remaining <= _RECONNECT_TIMEOUT:
                    raise
                continue
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
                    reconnect_timeout=_RECONNECT_TIMEOUT,
                    open=True,
                )
        pool = self._job_pool
        connection = self._get_job_connection(pool)
        try:
            with connection:
                yield connection
        finally:
            pool.putconn(connection)

    @contextlib.contextmanager
    def session(self) -> Iterator[psycopg.Connection[Any]]:
        """A new connection for a task that needs a session: it sets what other tasks must not inherit, or holds a
        session lock."""
        with self._job_pool_lock:
            self._prepare()
        options = {**self._pool_args["kwargs"], "autocommit": True}
        with ConnectionWithDeadline.connect(str(self._direct_url), **options) as connection:
            connection.deadline = self.job_statement_deadline
            connection.execute(_SESSION_SETTINGS, {"seconds": connection.deadline})
            yield connection

    @contextlib.asynccontextmanager
    async def _get_standalone_connection(self) -> AsyncGenerator[psycopg.AsyncConnection[Any]]:
        """For the listener, which needs a session."""
        options = {**self._pool_args["kwargs"], "autocommit": True}
        async with await AsyncConnectionWithDeadline.connect(str(self._direct_url), **options) as connection:
            connection.deadline = self.statement_deadline
            await connection.execute(_SESSION_SETTINGS, {"seconds": connection.deadline})
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

    async def execute_once(self, query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
        """Like execute_query_all_async, but never retried."""
        try:
            rows: list[dict[str, Any]] = await super().execute_query_all_async(query, **arguments)
        except exceptions.ConnectorException as error:
            await self._after_transient(error.__cause__)
            raise
        return rows

    async def _retry_transient(self, run: Callable[[], Awaitable[Result]]) -> Result:
        retry_until = time.monotonic() + self.settings.database_timeout
        backoff = _INITIAL_BACKOFF
        while True:
            try:
                return await run()
            except exceptions.ConnectorException as error:
                cause = error.__cause__
                if not is_transient(cause) or time.monotonic() > retry_until:
                    raise
            except psycopg.Error as error:
                # Procrastinate does not wrap errors of the pool.
                cause = error
                if not is_transient(cause) or time.monotonic() > retry_until:
                    raise
            logger.warning("transient database error, retrying: %s", str(cause).strip().splitlines()[:1])
            await self._after_transient(cause)
            if isinstance(cause, StatementTimeout | psycopg.errors.QueryCanceled):
                while await self._waits_for_standby():
                    logger.warning("a commit waits for a synchronous standby: see docs/runbooks/failover.md")
                    retry_until = time.monotonic() + self.settings.database_timeout
                    await asyncio.sleep(_STANDBY_INTERVAL)
            await asyncio.sleep(random.uniform(0.5, 1.0) * backoff)  # noqa: S311 (jitter)
            backoff = min(backoff * 2, _MAX_BACKOFF)

    async def _waits_for_standby(self) -> bool:
        """Whether a session of this process, which may be closed at this end, waits for a synchronous standby. A
        further statement would wait too, or for the locks of that session."""
        try:
            rows: list[Any] = await super().execute_query_all_async(_SESSIONS_WAITING_FOR_STANDBY, holder=self.holder)
        except (exceptions.ConnectorException, psycopg.Error) as error:
            logger.info("cannot find out whether a commit waits for a standby: %s", error)
            return False
        return rows != []

    async def _after_transient(self, error: BaseException | None) -> None:
        if isinstance(error, psycopg_pool.PoolTimeout | psycopg.errors.LockNotAvailable):
            return  # not executed, or rolled back
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            # The other connections of the pools are to the same server, which is no longer the primary.
            await self.pool.drain()
            if self._job_pool is not None:
                await asyncio.to_thread(self._job_pool.drain)
        if isinstance(error, psycopg.OperationalError | psycopg.errors.ReadOnlySqlTransaction):
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
        """Like Procrastinate's, but records every round trip: an idle queue has no notifications for hours. Raises if
        the server is no longer the primary, where nobody notifies."""
        while True:
            self.listener_alive_at = time.monotonic()
            async for notification in connection.notifies(timeout=timeout):
                await on_notification(channel=notification.channel, payload=notification.payload)
            await connection.execute("select 1")
            require_read_write(connection)
