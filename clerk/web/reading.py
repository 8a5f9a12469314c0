"""What the pages show: each is one short transaction that can only read, and only the views.

Role, time limit and search path are set per transaction, not per session, so that a pooler in front of Postgres
does no harm. The catch: where the role clerk_dashboard cannot be taken, only the read-only transaction stands
between a mistake in here and the tables; `Reader.take_role` says so in the log.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool

from clerk.errors import DatabaseRefused, SchemaUnknown
from clerk.pg.connection import translated
from clerk.pg.metrics import Metric, read_metrics
from clerk.pg.overview import Overview, Progress, read_overview, read_progress

logger = logging.getLogger(__name__)

ROLE = "clerk_dashboard"
STAGES = ("fetch", "ocr", "compilation", "extraction", "deploy")
PAGE_SIZE = 100
_SHOWN_AT_MOST = 200
_CONNECTIONS = 4
_WAIT_AT_MOST = 5.0
_STATEMENT_TIMEOUT = "5s"
_INVARIANTS_TIMEOUT = "2s"

_UNLIKE_OURS = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction)
Query = sql.SQL | sql.Composed

_ERRORS = sql.SQL("""
    select subdomain, last_error_stage as stage, last_error_message as message, last_error_at as at
    from pipeline_overview
    where last_error_at is not null
    order by last_error_at desc, subdomain
    limit 10
""")
_DUE = sql.SQL("select count(*) as sites from due_sites")
_BROKEN = sql.SQL("select invariant, subdomain, stage, problem from pipeline_conservation limit 20")
_MATCHING = sql.SQL("""
    from pipeline_overview
    where (%(text)s = '' or strpos(lower(subdomain), lower(%(text)s)) > 0
           or strpos(lower(coalesce(name, '')), lower(%(text)s)) > 0)
      and (%(stage)s = '' or coalesce(current_stage, 'never run') = %(stage)s)
""")
_COUNT = sql.SQL("select count(*) as sites {matching}").format(matching=_MATCHING)
_SITES = """
    select subdomain, name, updated_at,
           fetch_failed + ocr_failed + compilation_failed + extraction_failed + deploy_failed as failed
    {matching}
    order by {order} limit %(limit)s offset %(offset)s
"""
_ORDERS: dict[str, LiteralString] = {
    "site": "subdomain",
    "-site": "subdomain desc",
    "stage": "current_stage nulls first, subdomain",
    "-stage": "current_stage desc nulls last, subdomain",
    "failed": "failed, subdomain",
    "-failed": "failed desc, subdomain",
    "updated": "updated_at nulls first, subdomain",
    "-updated": "updated_at desc nulls last, subdomain",
}
SITES = {key: sql.SQL(_SITES).format(matching=_MATCHING, order=sql.SQL(order)) for key, order in _ORDERS.items()}
"""The list in each order that can be asked for."""
_SITE = sql.SQL("select * from pipeline_overview where subdomain = %(subdomain)s")
_FAILING = sql.SQL("""
    select stage, kind, meeting, date, status, attempt_count, error_code, error_message, last_attempt_at
    from failing_documents
    where subdomain = %(subdomain)s
    order by last_attempt_at desc nulls last, content_item_id
    limit %(limit)s
""")


@dataclass(frozen=True)
class Front:
    overview: Overview
    due: int
    errors: list[DictRow]
    broken: list[DictRow] | None
    """None: it took too long to find out."""


@dataclass(frozen=True)
class Choice:
    """Which sites to list. Anything may stand in a URL, so every field is brought within its bounds."""

    text: str = ""
    stage: str = ""
    order: str = "site"
    page: int = 1

    @classmethod
    def of(cls, text: str, stage: str, order: str, page: str) -> Choice:
        return cls(
            text.replace("\0", "")[:100].strip(),
            stage if stage in (*STAGES, "completed", "never run") else "",
            order if order in SITES else "site",
            max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 8 else 1,
        )


@dataclass(frozen=True)
class Listing:
    sites: list[tuple[DictRow, Progress]]
    total: int
    page: int
    pages: int


@dataclass(frozen=True)
class Site:
    row: DictRow
    progress: Progress
    failing: list[DictRow]
    more_failing: bool


class Reader:
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
    def opened(self) -> Iterator[Reader]:
        with self.pool:
            yield self

    def take_role(self) -> None:
        """Read as clerk_dashboard from now on, if that role exists and we may."""
        try:
            with self._reading() as connection:
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
    def _reading(self) -> Iterator[psycopg.Connection]:
        with translated(self.url), self.pool.connection() as connection, connection.transaction():
            connection.execute("set transaction isolation level repeatable read, read only")
            connection.execute(
                "select set_config('search_path', 'public', true), set_config('statement_timeout', %s, true)",
                [_STATEMENT_TIMEOUT],
            )
            if self.role is not None:
                connection.execute("select set_config('role', %s, true)", [self.role])
            yield connection

    def front(self) -> Front:
        with self._reading() as connection:
            overview = read_overview(connection)
            due = _rows(connection, _DUE)[0]["sites"]
            errors = _rows(connection, _ERRORS)
            return Front(overview, due, errors, self._broken_invariants(connection))

    @staticmethod
    def _broken_invariants(connection: psycopg.Connection) -> list[DictRow] | None:
        """Last of a page, since its time limit stays: this one looks at all that moves."""
        try:
            with connection.transaction():
                connection.execute("select set_config('statement_timeout', %s, true)", [_INVARIANTS_TIMEOUT])
                return _rows(connection, _BROKEN)
        except psycopg.errors.QueryCanceled:
            return None

    def metrics(self) -> list[Metric]:
        with self._reading() as connection:
            return read_metrics(connection)

    def sites(self, choice: Choice) -> Listing:
        wanted: dict[str, Any] = {"text": choice.text, "stage": choice.stage, "limit": PAGE_SIZE}
        with self._reading() as connection:
            total = _rows(connection, _COUNT, wanted)[0]["sites"]
            pages = max(1, -(-total // PAGE_SIZE))
            page = min(choice.page, pages)
            rows = _rows(connection, SITES[choice.order], wanted | {"offset": (page - 1) * PAGE_SIZE})
            progress = {found.subdomain: found for found in read_progress(connection, [r["subdomain"] for r in rows])}
        return Listing([(row, progress[row["subdomain"]]) for row in rows], total, page, pages)

    def site(self, subdomain: str) -> Site | None:
        named = {"subdomain": subdomain.replace("\0", ""), "limit": _SHOWN_AT_MOST + 1}
        with self._reading() as connection:
            rows = _rows(connection, _SITE, named)
            if not rows:
                return None
            failing = _rows(connection, _FAILING, named)
            (progress,) = read_progress(connection, [rows[0]["subdomain"]])
        return Site(rows[0], progress, failing[:_SHOWN_AT_MOST], len(failing) > _SHOWN_AT_MOST)

    def check(self) -> None:
        """Raises ClerkError unless the database answers and every query of the pages fits its views."""
        anything = {"text": "", "stage": "", "limit": 1, "offset": 0, "subdomain": ""}
        try:
            with self._reading() as connection:
                read_overview(connection)
                read_progress(connection, [])
                for query in (_DUE, _ERRORS, _BROKEN, _COUNT, *SITES.values(), _SITE, _FAILING):
                    _rows(connection, sql.SQL("explain {}").format(query), anything)
        except _UNLIKE_OURS as error:
            raise SchemaUnknown(
                f"the database does not have the views that the dashboard reads ({error.diag.message_primary})",
                'run "clerk db up", and "clerk db verify" to see more',
            ) from error


def _rows(connection: psycopg.Connection, query: Query, values: dict[str, Any] | None = None) -> list[DictRow]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, values).fetchall()
