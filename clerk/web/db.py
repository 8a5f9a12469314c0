"""How the pages read: each in one short transaction that can only read, and only the views.

Role, time limit, time zone and search path are set per transaction, not per session, so that a pooler in front of
Postgres does no harm. The catch: where the role clerk_dashboard cannot be taken, only the read-only transaction
stands between a mistake in here and the tables; `Reader.take_role` says so in the log.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool

from clerk.db.connection import translate_errors
from clerk.errors import DatabaseRefused, SchemaMismatch
from clerk.monitoring.metrics import Metric, read_metrics
from clerk.monitoring.overview import read_overview, read_progress

logger = logging.getLogger(__name__)

ROLE = "clerk_dashboard"
_CONNECTIONS = 4
_WAIT_AT_MOST = 5.0
_STATEMENT_TIMEOUT = "5s"

_UNLIKE_OURS = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction)
Query = sql.SQL | sql.Composed
Example = tuple[Query, dict[str, Any]]
"""A query and values such as it is asked with."""


class ReadOnlyPool:
    def __init__(self, url: str) -> None:
        self.url = url
        self.role: str | None = None
        self.pool = ConnectionPool(
            url,
            kwargs={"autocommit": True, "connect_timeout": 5, "application_name": "clerk dashboard"},
            min_size=0,
            max_size=_CONNECTIONS,
            timeout=_WAIT_AT_MOST,
            # An attempt to connect is given up soon: the next page makes a new one, instead of waiting out a backoff.
            reconnect_timeout=_WAIT_AT_MOST,
            check=ConnectionPool.check_connection,
            open=False,
        )

    @contextlib.contextmanager
    def opened(self) -> Iterator[ReadOnlyPool]:
        with self.pool:
            yield self

    def take_role(self) -> None:
        """Read as clerk_dashboard from now on, if that role exists and we may."""
        try:
            with self.reading() as connection:
                connection.execute("select set_config('role', %s, true)", [ROLE])
            self.role = ROLE
        except psycopg.errors.InvalidParameterValue:
            self._explain("does not exist", 'let "clerk db up" make it')
        except DatabaseRefused:
            self._explain("may not be taken by this database user", f'"grant {ROLE} to" that user')

    def _explain(self, what: str, remedy: str) -> None:
        logger.warning(
            "the role %s %s, so the dashboard reads with all the rights of its database user, in read-only"
            " transactions: %s to have the database itself see to it",
            *(ROLE, what, remedy),
        )

    @contextlib.contextmanager
    def reading(self) -> Iterator[psycopg.Connection]:
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
        with self.reading() as connection:
            return read_metrics(connection)

    def check(self, queries: Iterable[Example]) -> None:
        """Raises ClerkError unless the database answers and each of `queries`, given such values, fits its views."""
        try:
            with self.reading() as connection:
                read_overview(connection)
                read_progress(connection, [])
                for query, values in queries:
                    rows(connection, sql.SQL("explain {}").format(query), values)
        except _UNLIKE_OURS as error:
            raise SchemaMismatch(
                f"the database does not have the views that the dashboard reads ({error.diag.message_primary})",
                'run "clerk db up", and "clerk db verify" to see more',
            ) from error


def rows(connection: psycopg.Connection, query: Query, values: dict[str, Any] | None = None) -> list[DictRow]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, values).fetchall()
