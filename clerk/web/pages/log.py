"""The log: repairs and their changes, reconciliations, and operator actions, of which bulk actions are one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import DictRow
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.paging import ResultPage, clamp_page, link_to, parse_page, parse_text
from clerk.web.rendering import render

PAGE_SIZE = 25
"""On a phone each row is a card, about 200 pixels high."""
SECTIONS = {"actions": "Operator actions", "repairs": "Repairs", "reconciliations": "Reconciliations"}
_MAX_ROWS = 10
"""Of each section, on the page with all of them."""
_FILTER = sql.SQL("""
    (%(site)s = '' or subdomain = %(site)s) and (%(kind)s = '' or {kind} = %(kind)s)
    and (%(actor)s = '' or actor = %(actor)s)
    and (%(after)s::timestamptz is null or at >= %(after)s)
    and (%(before)s::timestamptz is null or at <= %(before)s)
""")
_MATCHING = sql.SQL("from recent_repairs where {filter}").format(filter=_FILTER.format(kind=sql.SQL("kind")))
_COUNT = sql.SQL("select count(*) as repairs {matching}").format(matching=_MATCHING)
_REPAIRS = sql.SQL("""
    select at, kind, subdomain, run_id, stage, found, done, why, error, actor, before, after
    {matching} order by at desc, id desc limit %(limit)s offset %(offset)s
""").format(matching=_MATCHING)
_RECONCILIATIONS = sql.SQL("""
    select started_at, ended_at, seconds, actor, via, subdomain, found, repaired, failed, abandoned,
           count(*) over () as total
    from recent_reconciliations
    where (%(site)s = '' or subdomain is null or subdomain = %(site)s) and (%(actor)s = '' or actor = %(actor)s)
      and (%(after)s::timestamptz is null or started_at >= %(after)s)
      and (%(before)s::timestamptz is null or started_at <= %(before)s)
    order by started_at desc limit %(limit)s offset %(offset)s
""")
# Actions of the same kind by the same person, at most a minute apart, are one group: `clerk failures --retry` records
# one action for each of its sites. Pauses of different queues are not: each line names its queue.
_ACTIONS = sql.SQL("""
    with marked as (
        select *, %(grouped)s and coalesce(at - lag(at) over same <= interval '1 minute', false) as continues
        from recent_actions
        where {filter}
        window same as (partition by actor, via, action, detail ->> 'queue' order by at)
    ), numbered as (
        select *, count(*) filter (where not continues) over (
            partition by actor, via, action, detail ->> 'queue' order by at rows unbounded preceding
        ) as burst
        from marked
    )
    select actor, via, action, count(*) as actions, count(distinct subdomain) as sites,
           min(at) as began_at, max(at) as at,
           (array_agg(distinct subdomain) filter (where subdomain is not null))[1:%(sites)s] as subdomains,
           (array_agg(detail order by at desc))[1] as detail,
           sum(case when detail ->> 'units' ~ '^[0-9]{{1,9}}$' then (detail ->> 'units')::bigint end) as units,
           count(*) over () as total
    from numbered
    group by actor, via, action, detail ->> 'queue', burst
    order by max(at) desc, action limit %(limit)s offset %(offset)s
""").format(filter=_FILTER.format(kind=sql.SQL("action")))
_KINDS = sql.SQL("select kind, count(*) as repairs from recent_repairs group by 1 order by 2 desc, 1")
_ACTION_KINDS = sql.SQL("select action, count(*) as actions from recent_actions group by 1 order by 2 desc, 1")
_ACTORS = sql.SQL("select actor from recent_actions group by 1 order by count(*) desc, 1 limit 50")
_SAMPLE = {"site": "", "kind": "", "actor": "", "after": None, "before": None, "grouped": True, "sites": 1}
QUERIES: list[SampleQuery] = [
    (query, _SAMPLE | {"limit": 1, "offset": 0})
    for query in (_COUNT, _REPAIRS, _KINDS, _RECONCILIATIONS, _ACTIONS, _ACTION_KINDS, _ACTORS)
]
MAX_SITES = 25
"""Of a group of actions, in the list that opens."""


@dataclass(frozen=True)
class LogParams:
    """Query parameters of the page. Invalid values are replaced by the defaults."""

    site: str = ""
    kind: str = ""
    actor: str = ""
    after: str = ""
    before: str = ""
    show: str = ""
    """One of SECTIONS, which is then shown in pages; empty: all of them."""
    groups: str = ""
    """`no`: each action is shown on its own."""
    page: int = 1

    @classmethod
    def parse(cls, query: QueryParams) -> LogParams:
        show = query.get("show", "")
        return cls(
            parse_text(query.get("site", ""), 300),
            parse_text(query.get("kind", "")),
            parse_text(query.get("actor", "")),
            _time_text(query.get("after", "")),
            _time_text(query.get("before", "")),
            show if show in SECTIONS else "",
            "no" if query.get("groups") == "no" else "",
            parse_page(query.get("page", "")),
        )

    @property
    def is_active(self) -> bool:
        return bool(self.site or self.kind or self.actor or self.after or self.before)


def _time_text(text: str) -> str:
    return text if parse_time(text) else ""


def parse_time(text: str) -> datetime | None:
    """A time as a browser sends it, in UTC; None if it is not one."""
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


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
    action_kinds: list[DictRow]
    actors: list[str]
    repairs: ResultPage
    reconciliations: ResultPage
    actions: ResultPage
    """Groups of actions."""


def show(request: Request) -> Response:
    params = LogParams.parse(request.query_params)
    log = read_log(request.app.state.pool, params)
    return render(
        "log.html",
        params=params,
        log=log,
        sections=_sections(log, params),
        titles=SECTIONS,
        max_sites=MAX_SITES,
        link=link_to("/log", params),
    )


def _sections(log: Log, params: LogParams) -> list[str]:
    """The sections that are shown: with a kind, only those that can have it."""
    if params.show:
        return [params.show]
    if not params.kind:
        return list(SECTIONS)
    of_action = any(row["action"] == params.kind for row in log.action_kinds)
    return ["actions"] if of_action else ["repairs"]


def read_log(pool: ReadOnlyPool, params: LogParams) -> Log:
    values = {name: getattr(params, name) for name in ("site", "kind", "actor")}
    values |= {"after": parse_time(params.after), "before": parse_time(params.before)}
    with pool.transaction() as connection:
        kinds = fetch_rows(connection, _KINDS)
        action_kinds = fetch_rows(connection, _ACTION_KINDS)
        actors = [row["actor"] for row in fetch_rows(connection, _ACTORS)]
        total = fetch_rows(connection, _COUNT, values)[0]["repairs"]
        size, page = _page_of(params, "repairs")
        page, pages = clamp_page(total, page, size)
        rows = fetch_rows(connection, _REPAIRS, values | {"limit": size, "offset": (page - 1) * size})
        grouping = {"grouped": params.groups != "no", "sites": MAX_SITES}
        reconciliations = _read_section(connection, _RECONCILIATIONS, values, params, "reconciliations")
        actions = _read_section(connection, _ACTIONS, values | grouping, params, "actions")
    repairs = [RepairView(row, diff(row["before"], row["after"])) for row in rows]
    return Log(kinds, action_kinds, actors, ResultPage(repairs, total, page, pages), reconciliations, actions)


def _page_of(params: LogParams, section: str) -> tuple[int, int]:
    """Number of rows, and page: the latest rows, or a page of them if only this section is shown."""
    return (PAGE_SIZE, params.page) if params.show == section else (_MAX_ROWS, 1)


def _read_section(
    connection: psycopg.Connection, query: sql.Composed | sql.SQL, values: dict[str, Any], params: LogParams, name: str
) -> ResultPage:
    size, page = _page_of(params, name)
    rows = fetch_rows(connection, query, values | {"limit": size, "offset": (page - 1) * size})
    if not rows and page > 1:
        page = 1
        rows = fetch_rows(connection, query, values | {"limit": size, "offset": 0})
    total = rows[0]["total"] if rows else 0
    return ResultPage(rows, total, *clamp_page(total, page, size))


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
