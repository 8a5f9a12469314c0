"""The log: repairs and their changes, reconciliations, and operator actions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.rows import DictRow
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.paging import ResultPage, clamp_page, link_to, parse_page, parse_text
from clerk.web.rendering import render

PAGE_SIZE = 50
_MAX_ROWS = 20
"""Of reconciliations and of actions."""
_MATCHING = sql.SQL("""
    from recent_repairs where (%(site)s = '' or subdomain = %(site)s) and (%(kind)s = '' or kind = %(kind)s)
""")
_COUNT = sql.SQL("select count(*) as repairs {matching}").format(matching=_MATCHING)
_REPAIRS = sql.SQL("""
    select at, kind, subdomain, run_id, stage, found, done, why, error, actor, before, after
    {matching} order by at desc, id desc limit %(limit)s offset %(offset)s
""").format(matching=_MATCHING)
_RECONCILIATIONS = sql.SQL("""
    select started_at, ended_at, seconds, actor, via, subdomain, found, repaired, failed, abandoned
    from recent_reconciliations
    where (%(site)s = '' or subdomain is null or subdomain = %(site)s)
    limit %(limit)s
""")
_ACTIONS = sql.SQL("""
    select at, actor, via, action, subdomain, run_id, detail
    from recent_actions
    where (%(site)s = '' or subdomain = %(site)s)
    limit %(limit)s
""")
_KINDS = sql.SQL("select kind, count(*) as repairs from recent_repairs group by 1 order by 2 desc, 1")
QUERIES: list[SampleQuery] = [
    (query, {"site": "", "kind": "", "limit": 1, "offset": 0})
    for query in (_COUNT, _REPAIRS, _KINDS, _RECONCILIATIONS, _ACTIONS)
]


@dataclass(frozen=True)
class RepairParams:
    """Query parameters of the page. Invalid values are replaced by the defaults."""

    site: str = ""
    kind: str = ""
    page: int = 1

    @classmethod
    def parse(cls, query: QueryParams) -> RepairParams:
        return cls(
            parse_text(query.get("site", ""), 300),
            parse_text(query.get("kind", "")),
            parse_page(query.get("page", "")),
        )


@dataclass(frozen=True)
class Change:
    name: str
    before: str
    after: str


@dataclass(frozen=True)
class RepairView:
    row: DictRow
    changes: list[Change]


@dataclass(frozen=True)
class Log:
    kinds: list[DictRow]
    """Kinds of repairs with their counts."""
    repairs: ResultPage
    reconciliations: list[DictRow]
    actions: list[DictRow]


def show(request: Request) -> Response:
    params = RepairParams.parse(request.query_params)
    log = read_log(request.app.state.pool, params)
    return render("log.html", params=params, log=log, link=link_to("/log", params))


def read_log(pool: ReadOnlyPool, params: RepairParams) -> Log:
    values = {"site": params.site, "kind": params.kind}
    with pool.transaction() as connection:
        kinds = fetch_rows(connection, _KINDS)
        total = fetch_rows(connection, _COUNT, values)[0]["repairs"]
        page, pages = clamp_page(total, params.page, PAGE_SIZE)
        rows = fetch_rows(connection, _REPAIRS, values | {"limit": PAGE_SIZE, "offset": (page - 1) * PAGE_SIZE})
        latest = {"site": params.site, "limit": _MAX_ROWS}
        reconciliations = fetch_rows(connection, _RECONCILIATIONS, latest)
        actions = fetch_rows(connection, _ACTIONS, latest)
    repairs = [RepairView(row, diff(row["before"], row["after"])) for row in rows]
    return Log(kinds, ResultPage(repairs, total, page, pages), reconciliations, actions)


def diff(before: Any, after: Any) -> list[Change]:
    """The values that differ between two snapshots of the same rows. A failed repair has no second snapshot."""
    if after is None:
        return []
    old, new = dict(_flatten(before)), dict(_flatten(after))
    return [
        Change(name, _format_value(old, name), _format_value(new, name))
        for name in sorted(old | new)
        if old.get(name) != new.get(name)
    ]


def _flatten(snapshot: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(snapshot, dict):
        for key, value in snapshot.items():
            yield from _flatten(value, f"{name}.{key}" if name else key)
    elif snapshot is not None:
        yield name, snapshot


def _format_value(snapshot: dict[str, Any], name: str) -> str:
    if name not in snapshot:
        return "null"
    value = snapshot[name]
    return value if isinstance(value, str) else json.dumps(value)
