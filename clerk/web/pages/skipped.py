"""Entries of sources that did not become documents, with the reason and what to do."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.rows import DictRow
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.paging import ResultPage, clamp_page, link_to, parse_page, parse_text
from clerk.web.rendering import render

PAGE_SIZE = 50
STATES = {"open": "to be resolved", "dated": "read by the next run", "ignored": "ignored"}
_MAX_SITES = 200
_MATCHING = sql.SQL("""
    from skipped_documents where (%(site)s = '' or subdomain = %(site)s) and (%(state)s = '' or state = %(state)s)
""")
_COUNT = sql.SQL("select count(*) as entries {matching}").format(matching=_MATCHING)
_ENTRIES = sql.SQL("""
    select subdomain, name, source_url, reason_code, reason, skipped_since, state, date, set_by
    {matching} order by subdomain, name limit %(limit)s offset %(offset)s
""").format(matching=_MATCHING)
_SITES = sql.SQL("""
    select subdomain, count(*) filter (where %(state)s = '' or state = %(state)s) as entries
    from skipped_documents group by 1 order by 2 desc, 1 limit %(limit)s
""")
QUERIES: list[SampleQuery] = [
    (query, {"site": "", "state": "", "limit": 1, "offset": 0}) for query in (_COUNT, _ENTRIES, _SITES)
]


@dataclass(frozen=True)
class SkippedParams:
    """Query parameters of the page. Invalid values are replaced by the defaults."""

    site: str = ""
    state: str = "open"
    page: int = 1

    @classmethod
    def parse(cls, query: QueryParams) -> SkippedParams:
        state = query.get("state", "open")
        return cls(
            parse_text(query.get("site", ""), 300),
            state if state in STATES or state == "" else "open",
            parse_page(query.get("page", "")),
        )


def show(request: Request) -> Response:
    params = SkippedParams.parse(request.query_params)
    sites, entries = read_skipped(request.app.state.pool, params)
    link = link_to("/skipped", params)
    return render("skipped.html", params=params, sites=sites, entries=entries, states=STATES, link=link)


def read_skipped(pool: ReadOnlyPool, params: SkippedParams) -> tuple[list[DictRow], ResultPage]:
    """The sites with skipped entries, and one page of the entries that match."""
    with pool.transaction() as connection:
        return fetch_rows(connection, _SITES, {"limit": _MAX_SITES, "state": params.state}), read_entries(
            connection, params
        )


def read_entries(connection: psycopg.Connection, params: SkippedParams, size: int = PAGE_SIZE) -> ResultPage:
    values = {"site": params.site, "state": params.state}
    total = fetch_rows(connection, _COUNT, values)[0]["entries"]
    page, pages = clamp_page(total, params.page, size)
    rows = fetch_rows(connection, _ENTRIES, values | {"limit": size, "offset": (page - 1) * size})
    return ResultPage(rows, total, page, pages)
