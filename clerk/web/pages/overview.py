"""Is all well? The first page."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.rows import DictRow
from starlette.requests import Request
from starlette.responses import Response

from clerk.pg.overview import Overview, read_overview
from clerk.web.reading import Example, Reader, rows
from clerk.web.rendering import page

_INVARIANTS_TIMEOUT = "2s"
_ERRORS = sql.SQL("""
    select subdomain, last_error_stage as stage, last_error_message as message, last_error_at as at
    from pipeline_overview
    where last_error_at is not null
    order by last_error_at desc, subdomain
    limit 10
""")
_DUE = sql.SQL("select count(*) as sites from due_sites")
_BROKEN = sql.SQL("select invariant, subdomain, stage, problem from pipeline_conservation limit 20")
QUERIES: list[Example] = [(query, {}) for query in (_ERRORS, _DUE, _BROKEN)]


@dataclass(frozen=True)
class Front:
    overview: Overview
    due: int
    errors: list[DictRow]
    broken: list[DictRow] | None
    """None: it took too long to find out."""


def show(request: Request) -> Response:
    return page("overview.html", front=read_front(request.app.state.reader))


def read_front(reader: Reader) -> Front:
    with reader.reading() as connection:
        overview = read_overview(connection)
        due = rows(connection, _DUE)[0]["sites"]
        errors = rows(connection, _ERRORS)
        return Front(overview, due, errors, _broken_invariants(connection))


def _broken_invariants(connection: psycopg.Connection) -> list[DictRow] | None:
    """Last of a page, since its time limit stays: this one looks at all that moves."""
    try:
        with connection.transaction():
            connection.execute("select set_config('statement_timeout', %s, true)", [_INVARIANTS_TIMEOUT])
            return rows(connection, _BROKEN)
    except psycopg.errors.QueryCanceled:
        return None
