"""Failures: error codes by age with their remedies, and the documents behind each number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import psycopg
from psycopg import sql
from psycopg.rows import DictRow
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from clerk.errors import JobError, job_error_class
from clerk.monitoring.alerts import find_periodic_task_alerts
from clerk.monitoring.failures import (
    AGES,
    FAILURE_STAGES,
    FailureFilter,
    FailureGroup,
    known_codes,
    read_failures,
)
from clerk.monitoring.status import read_periodic_tasks
from clerk.pipeline.engine import STAGES
from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.paging import PAGE_SIZE, ResultPage, clamp_page, link_to, parse_page, parse_text
from clerk.web.rendering import render

_MAX_GROUPS = 200
_MAX_EXAMPLES = 3
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_AGE_LABELS = dict(zip(AGES, ("under 1 h", "1 to 24 h", "1 to 7 d", "over 7 d"), strict=True))
_AGE_LIMITS: dict[str, tuple[timedelta | None, timedelta | None]] = {
    "": (None, None),
    **dict(zip(AGES, ((None, _HOUR), (_HOUR, _DAY), (_DAY, 7 * _DAY), (7 * _DAY, None)), strict=True)),
}
"""Age → minimum (inclusive) and maximum (exclusive) time since the last attempt."""
_MATCHING = sql.SQL("""
    from failing_documents
    where (%(site)s = '' or subdomain = %(site)s) and (%(stage)s = '' or stage = %(stage)s)
      and (%(error)s = '' or error_code = %(error)s or %(error)s = 'unknown' and error_code is null)
      and (%(at_least)s::interval is null
           or coalesce(last_attempt_at, '-infinity') <= clerk_now() - %(at_least)s::interval)
      and (%(less_than)s::interval is null or last_attempt_at > clerk_now() - %(less_than)s::interval)
""")
_COUNT = sql.SQL("select count(*) as units {matching}").format(matching=_MATCHING)
_DOCUMENTS = sql.SQL("""
    select f.*, d.source_url
    from (
        select * {matching}
        order by last_attempt_at desc nulls last, content_item_id, stage
        limit %(limit)s offset %(offset)s
    ) f
    left join site_documents d on d.id = f.content_item_id
    order by f.last_attempt_at desc nulls last, f.content_item_id, f.stage
""").format(matching=_MATCHING)
_SITE = sql.SQL("select subdomain from pipeline_overview where subdomain = %(site)s")
QUERIES: list[SampleQuery] = [
    (
        query,
        {"site": "", "stage": "", "error": "", "at_least": None, "less_than": None, "limit": 1, "offset": 0},
    )
    for query in (_COUNT, _DOCUMENTS)
] + [(_SITE, {"site": ""})]


@dataclass(frozen=True)
class FailureParams:
    """Query parameters of the page. An unknown site, stage or error matches nothing; other invalid values are replaced
    by the defaults."""

    site: str = ""
    stage: str = ""
    error: str = ""
    age: str = ""
    page: int = 1
    selected: str = ""
    """`all`: the checkboxes are ticked."""

    @classmethod
    def parse(cls, query: QueryParams) -> FailureParams:
        age = query.get("age", "")
        return cls(
            parse_text(query.get("site", ""), 300),
            parse_text(query.get("stage", "")),
            parse_text(query.get("error", ""), 300),
            age if age in _AGE_LIMITS else "",
            parse_page(query.get("page", "")),
            "all" if query.get("selected") == "all" else "",
        )

    @property
    def failure_filter(self) -> FailureFilter:
        return FailureFilter(self.site or None, self.stage or None, self.error or None)


@dataclass(frozen=True)
class FailureView:
    group: FailureGroup
    error: type[JobError]
    documents: list[DictRow]
    """The latest, as examples. Empty if the group is one of deliveries, or of sites."""


def _read_examples(connection: psycopg.Connection, group: FailureGroup, site: str) -> list[DictRow]:
    values = {"site": site, "stage": group.stage, "error": group.error_code, "at_least": None, "less_than": None}
    rows = fetch_rows(connection, _DOCUMENTS, values | {"limit": _MAX_EXAMPLES, "offset": 0})
    return [row for row in rows if row["kind"] != "archive"]


def _find_unknown(connection: psycopg.Connection, params: FailureParams) -> list[str]:
    """Which of the site, the stage and the error do not exist."""
    known: dict[str, tuple[str, Sequence[str]]] = {
        "site": (params.site, [row["subdomain"] for row in fetch_rows(connection, _SITE, {"site": params.site})]),
        "stage": (params.stage, FAILURE_STAGES),
        "error": (params.error, known_codes(connection)),
    }
    return [f"{kind} {name}" for kind, (name, names) in known.items() if name and name not in names]


def show(request: Request) -> Response:
    params = FailureParams.parse(request.query_params)
    with request.app.state.pool.transaction() as connection:
        groups = [
            FailureView(group, job_error_class(group.error_code), _read_examples(connection, group, params.site))
            for group in read_failures(connection, params.failure_filter)[:_MAX_GROUPS]
        ]
        unknown = [] if groups else _find_unknown(connection, params)
        failing = read_periodic_tasks(connection)
    return render(
        "failures.html",
        params=params,
        groups=groups,
        unknown=unknown,
        periodic_tasks=find_periodic_task_alerts(failing),
        ages=_AGE_LABELS,
        stages=FAILURE_STAGES,
        document_stages=STAGES,
        link=link_to("/failures/documents", replace(params, selected="")),
        groups_link=link_to("/failures", params),
    )


def show_documents(request: Request) -> Response:
    params = FailureParams.parse(request.query_params)
    results = read_documents(request.app.state.pool, params)
    with request.app.state.pool.transaction() as connection:
        unknown = [] if results.rows else _find_unknown(connection, params)
    return render(
        "failed_documents.html",
        params=params,
        results=results,
        unknown=unknown,
        ages=_AGE_LABELS,
        stages=STAGES,
        remedy_text=job_error_class(params.error).remedy if params.error else None,
        link=link_to("/failures/documents", params),
    )


def read_documents(pool: ReadOnlyPool, params: FailureParams) -> ResultPage:
    at_least, less_than = _AGE_LIMITS[params.age]
    values = {
        "site": params.site,
        "stage": params.stage,
        "error": params.error,
        "at_least": at_least,
        "less_than": less_than,
    }
    with pool.transaction() as connection:
        total = fetch_rows(connection, _COUNT, values)[0]["units"]
        page, pages = clamp_page(total, params.page)
        limits = {"limit": PAGE_SIZE, "offset": (page - 1) * PAGE_SIZE}
        return ResultPage(fetch_rows(connection, _DOCUMENTS, values | limits), total, page, pages)
