"""What failed: error class by age, what helps, and the documents behind each number."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from psycopg import sql
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from clerk.errors import JobError, job_error_class
from clerk.monitoring.failures import AGES, Failures, Group, read_failures
from clerk.pipeline.engine import STAGES
from clerk.web.db import Example, ReadOnlyPool, rows
from clerk.web.paging import PAGE_SIZE, Listing, link_to, page_number, page_of, text
from clerk.web.rendering import page

_GROUPS_AT_MOST = 200
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_BOUNDS: dict[str, tuple[timedelta | None, timedelta | None]] = {
    "": (None, None),
    **dict(zip(AGES, ((None, _HOUR), (_HOUR, _DAY), (_DAY, 7 * _DAY), (7 * _DAY, None)), strict=True)),
}
"""Age → since the last attempt at least, and less than."""
_BEHIND = sql.SQL("""
    from failing_documents
    where (%(site)s = '' or subdomain = %(site)s) and (%(stage)s = '' or stage = %(stage)s)
      and (%(error)s = '' or error_code = %(error)s or %(error)s = 'unknown' and error_code is null)
      and (%(at_least)s::interval is null
           or coalesce(last_attempt_at, '-infinity') <= clerk_now() - %(at_least)s::interval)
      and (%(less_than)s::interval is null or last_attempt_at > clerk_now() - %(less_than)s::interval)
""")
_COUNT = sql.SQL("select count(*) as units {behind}").format(behind=_BEHIND)
_DOCUMENTS = sql.SQL("""
    select subdomain, stage, content_item_id, kind, meeting, date, status, attempt_count, error_code, error_message,
           last_attempt_at
    {behind}
    order by last_attempt_at desc nulls last, content_item_id, stage
    limit %(limit)s offset %(offset)s
""").format(behind=_BEHIND)
QUERIES: list[Example] = [
    (
        query,
        {"site": "", "stage": "", "error": "", "at_least": None, "less_than": None, "limit": 1, "offset": 0},
    )
    for query in (_COUNT, _DOCUMENTS)
]


@dataclass(frozen=True)
class Choice:
    """Which failures. Anything may stand in a URL, so every field is brought within its bounds."""

    site: str = ""
    stage: str = ""
    error: str = ""
    age: str = ""
    page: int = 1

    @classmethod
    def of(cls, given: QueryParams) -> Choice:
        stage, age = given.get("stage", ""), given.get("age", "")
        return cls(
            text(given.get("site", ""), 300),
            stage if stage in STAGES else "",
            text(given.get("error", ""), 300),
            age if age in _BOUNDS else "",
            page_number(given.get("page", "")),
        )

    @property
    def group(self) -> Group:
        return Group(self.site or None, self.stage or None, self.error or None)


@dataclass(frozen=True)
class Shown:
    failures: Failures
    error: type[JobError]


def show(request: Request) -> Response:
    choice = Choice.of(request.query_params)
    with request.app.state.reader.reading() as connection:
        found = read_failures(connection, choice.group)[:_GROUPS_AT_MOST]
    return page(
        "failures.html",
        choice=choice,
        found=[Shown(one, job_error_class(one.error_code)) for one in found],
        ages=AGES,
        stages=STAGES,
        link=link_to("/failures/documents", choice),
    )


def show_documents(request: Request) -> Response:
    choice = Choice.of(request.query_params)
    return page(
        "failed_documents.html",
        choice=choice,
        listing=read_documents(request.app.state.reader, choice),
        ages=AGES,
        stages=STAGES,
        remedy=job_error_class(choice.error).remedy if choice.error else None,
        link=link_to("/failures/documents", choice),
    )


def read_documents(reader: ReadOnlyPool, choice: Choice) -> Listing:
    at_least, less_than = _BOUNDS[choice.age]
    wanted = {
        "site": choice.site,
        "stage": choice.stage,
        "error": choice.error,
        "at_least": at_least,
        "less_than": less_than,
    }
    with reader.reading() as connection:
        total = rows(connection, _COUNT, wanted)[0]["units"]
        number, pages = page_of(total, choice.page)
        place = {"limit": PAGE_SIZE, "offset": (number - 1) * PAGE_SIZE}
        return Listing(rows(connection, _DOCUMENTS, wanted | place), total, number, pages)
