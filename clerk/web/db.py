"""Read-only connection pool of the dashboard: each page reads the views in one short read-only transaction.

Role, statement timeout, time zone and search path are set per transaction, not per session, so a connection pooler in
front of Postgres works too. Limitation: if the role clerk_dashboard cannot be assumed, only the read-only transaction
prevents a defect in a page from reading or writing tables; `ReadOnlyPool.assume_role` logs a warning then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from prometheus_client.metrics_core import Metric
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool

from clerk.db import pooler
from clerk.db.connection import READ_WRITE, require_read_write, translate_errors
from clerk.errors import DatabaseRefused, SchemaMismatch
from clerk.monitoring.metrics import read_metrics
from clerk.monitoring.runs import read_progress
from clerk.monitoring.status import read_queues

logger = logging.getLogger(__name__)

ROLE = "clerk_dashboard"
SITE_NAME = sql.SQL("select name from site_sources where subdomain = %(subdomain)s")
_MAX_CONNECTIONS = 4
_POOL_TIMEOUT = 5.0
_STATEMENT_TIMEOUT = "5s"

_SCHEMA_ERRORS = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction)
Query = sql.SQL | sql.Composed
SampleQuery = tuple[Query, dict[str, Any]]
"""A query of a page with sample values, for the readiness check."""


class ReadOnlyPool:
    def __init__(self, url: str, is_pooled: bool = False) -> None:
        """`is_pooled`: the URL leads to a pool without sessions. Every setting is local to its transaction anyway."""
        self.url = url
        self.role: str | None = None
        self.pool = ConnectionPool(
            url,
            kwargs={
                "autocommit": True,
                "connect_timeout": 5,
                "application_name": "clerk dashboard",
                **(pooler.CLIENT_OPTIONS if is_pooled else {}),
            },
            min_size=0,
            max_size=_MAX_CONNECTIONS,
            timeout=_POOL_TIMEOUT,
            # Short, so that the next request starts a new attempt instead of waiting for the pool's backoff.
            reconnect_timeout=_POOL_TIMEOUT,
            check=_check,
            open=False,
        )

    def __enter__(self) -> ReadOnlyPool:
        self.pool.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()

    def assume_role(self) -> None:
        """Use the role clerk_dashboard from now on, if it exists and this database user is a member of it."""
        try:
            with self.transaction() as connection:
                connection.execute("select set_config('role', %s, true)", [ROLE])
            self.role = ROLE
        except psycopg.errors.InvalidParameterValue:
            self._warn_without_role("does not exist", 'to create it, run "clerk db up"')
        except DatabaseRefused:
            self._warn_without_role(
                "is not granted to this database user", f'to restrict it, run "grant {ROLE} to" that user'
            )

    def _warn_without_role(self, problem: str, remedy: str) -> None:
        logger.warning(
            "role %s %s: the dashboard reads with all rights of its database user, in read-only transactions; %s",
            *(ROLE, problem, remedy),
        )

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        with translate_errors(self.url), self.pool.connection() as connection, connection.transaction():
            connection.execute("set transaction isolation level repeatable read, read only")
            connection.execute(
                "select set_config('search_path', 'public', true), set_config('statement_timeout', %s, true),"
                " set_config('TimeZone', 'UTC', true)",
                [_STATEMENT_TIMEOUT],
            )
            if self.role is not None:
                connection.execute("select set_config('role', %s, true)", [self.role])
            yield connection

    def metrics(self) -> list[Metric]:
        with self.transaction() as connection:
            return read_metrics(connection)

    def check(self, queries: Iterable[SampleQuery]) -> None:
        """Raise ClerkError unless the database is reachable and its views have every column that `queries` read."""
        try:
            with self.transaction() as connection:
                read_queues(connection)
                read_progress(connection, [])
                for query, values in queries:
                    fetch_rows(connection, sql.SQL("explain {}").format(query), values)
        except _SCHEMA_ERRORS as error:
            raise SchemaMismatch(
                f"the database does not have the views that the dashboard reads ({error.diag.message_primary})",
                'run "clerk db up"; "clerk db verify" shows the differences',
            ) from error


def _check(connection: psycopg.Connection) -> None:
    """Raise if the connection is lost, or if DATABASE_URL asks for the primary and the server no longer is: its data
    would be those of the time before the failover."""
    ConnectionPool.check_connection(connection)
    if connection.info.get_parameters().get("target_session_attrs") == READ_WRITE:
        try:
            require_read_write(connection)
        except psycopg.errors.ReadOnlySqlTransaction:
            connection.close()  # otherwise the pool would keep it
            raise


def fetch_rows(connection: psycopg.Connection, query: Query, values: dict[str, Any] | None = None) -> list[DictRow]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, values).fetchall()


def read_site_name(pool: ReadOnlyPool, subdomain: str) -> str:
    """The name of a site for people: its subdomain if it has no other."""
    with pool.transaction() as connection:
        rows = fetch_rows(connection, SITE_NAME, {"subdomain": subdomain})
    return rows[0]["name"] or subdomain if rows else subdomain
