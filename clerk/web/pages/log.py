"""What was done to the pipeline: repairs and their changes, the reconciliations that made them, operators' moves."""

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

from clerk.web.db import Example, ReadOnlyPool, rows
from clerk.web.paging import Listing, link_to, page_number, page_of, text
from clerk.web.rendering import page

PAGE_SIZE = 50
_LATEST = 20
_MATCHING = sql.SQL("""
    from recent_repairs where (%(site)s = '' or subdomain = %(site)s) and (%(kind)s = '' or kind = %(kind)s)
""")
_COUNT = sql.SQL("select count(*) as repairs {matching}").format(matching=_MATCHING)
_REPAIRS = sql.SQL("""
    select at, kind, subdomain, run_id, stage, found, done, why, error, actor, before, after
    {matching} order by at desc, id desc limit %(limit)s offset %(offset)s
""").format(matching=_MATCHING)
_PASSES = sql.SQL("""
    select started_at, ended_at, seconds, actor, via, subdomain, found, repaired, failed, given_up
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
QUERIES: list[Example] = [
    (query, {"site": "", "kind": "", "limit": 1, "offset": 0})
    for query in (_COUNT, _REPAIRS, _KINDS, _PASSES, _ACTIONS)
]


@dataclass(frozen=True)
class Choice:
    """Which repairs. Anything may stand in a URL, so every field is brought within its bounds."""

    site: str = ""
    kind: str = ""
    page: int = 1

    @classmethod
    def of(cls, given: QueryParams) -> Choice:
        return cls(text(given.get("site", ""), 300), text(given.get("kind", "")), page_number(given.get("page", "")))


@dataclass(frozen=True)
class Change:
    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Repair:
    row: DictRow
    changes: list[Change]


@dataclass(frozen=True)
class Log:
    kinds: list[DictRow]
    """Of repairs, and how many of each."""
    repairs: Listing
    passes: list[DictRow]
    actions: list[DictRow]


def show(request: Request) -> Response:
    choice = Choice.of(request.query_params)
    log = read_log(request.app.state.reader, choice)
    return page("log.html", choice=choice, log=log, link=link_to("/log", choice))


def read_log(reader: ReadOnlyPool, choice: Choice) -> Log:
    wanted = {"site": choice.site, "kind": choice.kind}
    with reader.reading() as connection:
        kinds = rows(connection, _KINDS)
        total = rows(connection, _COUNT, wanted)[0]["repairs"]
        number, pages = page_of(total, choice.page, PAGE_SIZE)
        found = rows(connection, _REPAIRS, wanted | {"limit": PAGE_SIZE, "offset": (number - 1) * PAGE_SIZE})
        latest = {"site": choice.site, "limit": _LATEST}
        passes, actions = rows(connection, _PASSES, latest), rows(connection, _ACTIONS, latest)
    repairs = [Repair(row, changes(row["before"], row["after"])) for row in found]
    return Log(kinds, Listing(repairs, total, number, pages), passes, actions)


def changes(before: Any, after: Any) -> list[Change]:
    """What differs between two pictures of the same rows. A repair that failed has no second one."""
    if after is None:
        return []
    was, now = dict(_leaves(before)), dict(_leaves(after))
    return [
        Change(name, _shown(was, name), _shown(now, name))
        for name in sorted(was | now)
        if was.get(name) != now.get(name)
    ]


def _leaves(picture: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(picture, dict):
        for key, value in picture.items():
            yield from _leaves(value, f"{name}.{key}" if name else key)
    elif picture is not None:
        yield name, picture


def _shown(picture: dict[str, Any], name: str) -> str:
    if name not in picture:
        return "nothing"
    value = picture[name]
    return value if isinstance(value, str) else json.dumps(value)
