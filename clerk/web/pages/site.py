"""One site: its status and the reason for it, documents, runs, published versions, repairs and operator actions."""

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

from clerk.documents.kinds import ORIGINS
from clerk.monitoring.explain import Explanation, explain
from clerk.monitoring.site_state import read_site_state
from clerk.pipeline.engine import STAGES
from clerk.web import paging, run_progress
from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.flow import Node, flow
from clerk.web.pages import documents, skipped
from clerk.web.pages.documents import DocumentPage, DocumentParams
from clerk.web.pages.skipped import SkippedParams
from clerk.web.paging import ResultPage
from clerk.web.rendering import render
from clerk.web.run_progress import RunProgress

_MAX_RUNS = 10
_MAX_VERSIONS = 5
_MAX_EVENTS = 10
_MAX_SKIPPED = 10

_SITE = sql.SQL("""
    select o.*, s.reason, s.outcome_reason, s.ended_at, s.due_at
    from pipeline_overview o join current_runs s on s.subdomain = o.subdomain
    where o.subdomain = %(subdomain)s
""")
_SOURCE = sql.SQL("select * from site_sources where subdomain = %(subdomain)s")
_RUNS = sql.SQL("""
    select * from run_history where subdomain = %(subdomain)s order by started_at desc, run_id desc limit %(runs)s
""")
_PUBLICATIONS = sql.SQL("""
    select * from site_publications where subdomain = %(subdomain)s order by id desc limit %(publications)s
""")
# Repairs and operator actions, the latest first.
_EVENTS = sql.SQL("""
    select * from (
        select at, 'reconciliation' as actor, null as via, replace(kind, '_', ' ') as what,
               found || '; ' || done as detail, null::jsonb as fields, error
        from recent_repairs where subdomain = %(subdomain)s
        union all
        select at, actor, via, action, null, detail, null
        from recent_actions where subdomain = %(subdomain)s
    ) event
    order by at desc limit %(events)s
""")
_LIMITS = {"runs": _MAX_RUNS + 1, "publications": _MAX_VERSIONS, "events": _MAX_EVENTS}
QUERIES: list[SampleQuery] = (
    [(query, {"subdomain": "", **_LIMITS}) for query in (_SITE, _SOURCE, _RUNS, _PUBLICATIONS, _EVENTS)]
    + documents.QUERIES
    + run_progress.QUERIES
)


@dataclass(frozen=True)
class RunView:
    """A run, and how it differs from the run before. A difference is None if one of the two has not ended."""

    row: DictRow
    took_diff: timedelta | None
    ocr_diff: int | None
    failed_diff: int | None

    @property
    def failed(self) -> int | None:
        return failed_units(self.row)


@dataclass(frozen=True)
class SiteView:
    row: DictRow
    source: DictRow
    explanation: Explanation
    flow: dict[str, Node]
    runs: list[RunView]
    publications: list[DictRow]
    current: DictRow | None
    """The publication that is online."""
    events: list[DictRow]
    skipped: ResultPage
    """Entries of the source that wait for an operator."""
    documents: DocumentPage
    progress: RunProgress | None
    """Of the active run."""


def show(request: Request) -> Response:
    name = request.path_params["subdomain"]
    params = DocumentParams.parse(*(request.query_params.get(field, "") for field in ("text", "state", "page")))
    site = read_site(request.app.state.pool, name, params)
    if site is None:
        raise HTTPException(404, f"There is no site {name}.")
    link = paging.link_to(f"/sites/{quote(name)}", params)
    return render(
        "site.html",
        site=site,
        params=params,
        origins=ORIGINS,
        max_runs=_MAX_RUNS,
        link=lambda **changes: f"{link(**changes)}#documents",
    )


def read_site(pool: ReadOnlyPool, subdomain: str, params: DocumentParams) -> SiteView | None:
    subdomain = subdomain.replace("\0", "")
    values = {"subdomain": subdomain, **_LIMITS}
    with pool.transaction() as connection:
        rows = fetch_rows(connection, _SITE, values)
        explanation = _explain(connection, subdomain)
        if not rows or explanation is None:
            return None
        row = rows[0]
        progress = run_progress.read_progress(connection, row)
        publications = fetch_rows(connection, _PUBLICATIONS, values)
        current = next((row for row in publications if row["deployed_at"] and not row["withdrawn_at"]), None)
        return SiteView(
            row,
            fetch_rows(connection, _SOURCE, values)[0],
            explanation,
            flow(row, current),
            _compare_runs(fetch_rows(connection, _RUNS, values), row),
            publications,
            current,
            fetch_rows(connection, _EVENTS, values),
            skipped.read_entries(connection, SkippedParams(site=subdomain), _MAX_SKIPPED),
            documents=documents.read_documents(connection, subdomain, params),
            progress=progress,
        )


def _explain(connection: psycopg.Connection, subdomain: str) -> Explanation | None:
    state = read_site_state(connection, subdomain)
    return None if state is None else explain(replace(state, now=state.now.astimezone(UTC)))


def _compare_runs(runs: list[DictRow], site: DictRow) -> list[RunView]:
    """The latest first, each compared with the run before it. The counters of the active run are in the site's row."""
    if runs and runs[0]["run_id"] == site["run_id"] and runs[0]["ended_at"] is None:
        runs[0].update({name: site[name] for name, value in runs[0].items() if value is None and name in site})
    pairs = list(pairwise(runs)) + ([(runs[-1], None)] if runs and len(runs) <= _MAX_RUNS else [])
    return [_compare(run, previous) for run, previous in pairs]


def _compare(run: DictRow, previous: DictRow | None) -> RunView:
    if previous is None or run["ended_at"] is None or previous["ended_at"] is None:
        return RunView(run, None, None, None)
    return RunView(
        run,
        run["took"] - previous["took"],
        _difference(run["ocr_completed"], previous["ocr_completed"]),
        _difference(failed_units(run), failed_units(previous)),
    )


def _difference(value: int | None, previous: int | None) -> int | None:
    return None if value is None or previous is None else value - previous


def failed_units(run: DictRow) -> int | None:
    counts = [run[f"{stage}_failed"] for stage in STAGES]
    return sum(counts) if None not in counts else None
