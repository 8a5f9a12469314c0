"""One site: how far it is and why, its documents, its runs, its published versions, and what was done to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from itertools import pairwise
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.rows import DictRow
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from clerk.monitoring.explain import Explanation, explain
from clerk.monitoring.site_state import read_site_state
from clerk.pipeline.engine import STAGES
from clerk.web import paging
from clerk.web.db import Example, ReadOnlyPool, rows
from clerk.web.flow import Node, flow
from clerk.web.pages import documents
from clerk.web.pages.documents import Choice, Listing
from clerk.web.rendering import page

_RUNS = 10
_VERSIONS = 5
_EVENTS = 10

_SITE = sql.SQL("""
    select o.*, s.reason, s.outcome_reason, s.ended_at, s.due_at
    from pipeline_overview o join current_runs s on s.subdomain = o.subdomain
    where o.subdomain = %(subdomain)s
""")
_SOURCE = sql.SQL("select * from site_sources where subdomain = %(subdomain)s")
_HISTORY = sql.SQL("""
    select * from run_history where subdomain = %(subdomain)s order by started_at desc, run_id desc limit %(runs)s
""")
_PUBLISHED = sql.SQL("""
    select * from site_publications where subdomain = %(subdomain)s order by id desc limit %(versions)s
""")
# What repairs and people did, in one order. What a person says of it is cut: a detail may hold anything.
_DONE_TO_IT = sql.SQL("""
    select * from (
        select at, 'reconciliation' as who, kind as what, found || '; ' || done as detail, error
        from recent_repairs where subdomain = %(subdomain)s
        union all
        select at, actor || ' (' || via || ')', action, nullif(left(detail::text, 500), '{}'), null
        from recent_actions where subdomain = %(subdomain)s
    ) event
    order by at desc limit %(events)s
""")
_SHOWN = {"runs": _RUNS + 1, "versions": _VERSIONS, "events": _EVENTS}
QUERIES: list[Example] = [
    (query, {"subdomain": "", **_SHOWN}) for query in (_SITE, _SOURCE, _HISTORY, _PUBLISHED, _DONE_TO_IT)
] + documents.QUERIES


@dataclass(frozen=True)
class PastRun:
    row: DictRow
    took_longer: timedelta | None
    """Than the run before; None if one of the two has not ended."""
    read_more: int | None
    failed_more: int | None

    @property
    def failed(self) -> int | None:
        return failed_in(self.row)


@dataclass(frozen=True)
class Site:
    row: DictRow
    source: DictRow
    answer: Explanation
    flow: dict[str, Node]
    runs: list[PastRun]
    versions: list[DictRow]
    current: DictRow | None
    """The version that readers get."""
    events: list[DictRow]
    listing: Listing


def show(request: Request) -> Response:
    name = request.path_params["subdomain"]
    choice = Choice.of(*(request.query_params.get(field, "") for field in ("text", "state", "page")))
    found = read_site(request.app.state.reader, name, choice)
    if found is None:
        raise HTTPException(404, f"There is no site {name}.")
    link = paging.link_to(f"/sites/{quote(name)}", choice)
    return page("site.html", site=found, choice=choice, link=lambda **changes: f"{link(**changes)}#documents")


def read_site(reader: ReadOnlyPool, subdomain: str, choice: Choice) -> Site | None:
    subdomain = subdomain.replace("\0", "")
    named = {"subdomain": subdomain, **_SHOWN}
    with reader.reading() as connection:
        found = rows(connection, _SITE, named)
        answer = _answer(connection, subdomain)
        if not found or answer is None:
            return None
        versions = rows(connection, _PUBLISHED, named)
        current = next((row for row in versions if row["deployed_at"] and not row["withdrawn_at"]), None)
        return Site(
            found[0],
            rows(connection, _SOURCE, named)[0],
            answer,
            flow(found[0], current),
            _compared(rows(connection, _HISTORY, named), found[0]),
            versions,
            current,
            rows(connection, _DONE_TO_IT, named),
            documents.read_documents(connection, subdomain, choice),
        )


def _answer(connection: psycopg.Connection, subdomain: str) -> Explanation | None:
    facts = read_site_state(connection, subdomain)
    return None if facts is None else explain(replace(facts, now=facts.now.astimezone(UTC)))


def _compared(history: list[DictRow], site: DictRow) -> list[PastRun]:
    """The newest first, each beside the one before it; of the run that is going the site's row has the counters."""
    if history and history[0]["run_id"] == site["run_id"] and history[0]["ended_at"] is None:
        history[0].update({name: site[name] for name, value in history[0].items() if value is None and name in site})
    beside = list(pairwise(history)) + ([(history[-1], None)] if history and len(history) <= _RUNS else [])
    return [_beside(run, before) for run, before in beside]


def _beside(run: DictRow, before: DictRow | None) -> PastRun:
    if before is None or run["ended_at"] is None or before["ended_at"] is None:
        return PastRun(run, None, None, None)
    return PastRun(
        run,
        run["took"] - before["took"],
        _more(run["ocr_completed"], before["ocr_completed"]),
        _more(failed_in(run), failed_in(before)),
    )


def _more(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


def failed_in(run: DictRow) -> int | None:
    counts = [run[f"{stage}_failed"] for stage in STAGES]
    return sum(counts) if None not in counts else None
