"""One site: where its run stands, and what fails."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import DictRow
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from clerk.pg.overview import Progress, read_progress
from clerk.web.reading import STAGES, Example, Reader, rows
from clerk.web.rendering import page

_SHOWN_AT_MOST = 200
_SITE = sql.SQL("select * from pipeline_overview where subdomain = %(subdomain)s")
_FAILING = sql.SQL("""
    select stage, kind, meeting, date, status, attempt_count, error_code, error_message, last_attempt_at
    from failing_documents
    where subdomain = %(subdomain)s
    order by last_attempt_at desc nulls last, content_item_id
    limit %(limit)s
""")
QUERIES: list[Example] = [(query, {"subdomain": "", "limit": 1}) for query in (_SITE, _FAILING)]


@dataclass(frozen=True)
class Site:
    row: DictRow
    progress: Progress
    failing: list[DictRow]
    more_failing: bool


def show(request: Request) -> Response:
    name = request.path_params["subdomain"]
    found = read_site(request.app.state.reader, name)
    if found is None:
        raise HTTPException(404, f"There is no site {name}.")
    return page("site.html", site=found, stages=STAGES)


def read_site(reader: Reader, subdomain: str) -> Site | None:
    named = {"subdomain": subdomain.replace("\0", ""), "limit": _SHOWN_AT_MOST + 1}
    with reader.reading() as connection:
        found = rows(connection, _SITE, named)
        if not found:
            return None
        failing = rows(connection, _FAILING, named)
        (progress,) = read_progress(connection, [found[0]["subdomain"]])
    return Site(found[0], progress, failing[:_SHOWN_AT_MOST], len(failing) > _SHOWN_AT_MOST)
