"""Votes and people in `clerk serve`: the votes of a site by result, body and year, a page per vote and per person."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote, urlencode

from datasette.utils.asgi import NotFound, Request, Response

from clerk.archive import vote_rows, votes
from clerk.archive.hits import page_path
from clerk.archive.votes import VoteFilter
from clerk.datasette_app.lazy_datasette import ArchiveDatasette
from clerk.datasette_app.meeting_pages import find_archive, parse_page, path_of

_PER_PAGE = 100
_MAX_VOTES = 500
"""Votes on the page of a person; the table has the others."""


async def show_votes(datasette: ArchiveDatasette, request: Request) -> Response:
    """The votes of a site, the newest first."""
    site, chosen = unquote(request.url_vars["site"], errors="replace"), _chosen(request)
    page = parse_page(request)

    def read(connection: sqlite3.Connection) -> dict[str, Any]:
        rows = votes.read_votes(connection, _filter(chosen), _PER_PAGE + 1, (page - 1) * _PER_PAGE)
        counts = votes.count_by_facet(connection, _filter(chosen))
        return {
            "votes": [(vote, path_of(datasette, site, vote.date, vote.meeting)) for vote in rows[:_PER_PAGE]],
            "has_more": len(rows) > _PER_PAGE,
            "counts": counts,
            "total": sum(counts["result"].values()),
        }

    def link(suffix: str = "", **changes: Any) -> str:
        values = chosen | {"page": 1} | changes
        query = urlencode({name: value for name, value in values.items() if value and value != 1})
        return str(datasette.urls.path(f"/-/votes/{quote(site)}{suffix}")) + (f"?{query}" if query else "")

    return await _show(datasette, request, "votes.html", read, chosen=chosen, link=link, page=page)


async def show_votes_as_csv(datasette: ArchiveDatasette, request: Request) -> Response:
    site, chosen = unquote(request.url_vars["site"], errors="replace"), _chosen(request)
    archive = await find_archive(datasette, site)

    def read(connection: sqlite3.Connection) -> str | None:
        if not votes.has_tables(connection):
            return None
        found = votes.read_votes(connection, _filter(chosen))
        return vote_rows.as_csv(vote_rows.VOTE_FIELDS, (vote_rows.vote_row(site, vote) for vote in found))

    text = await archive.execute_fn(read)
    if text is None:
        raise NotFound("The published archive has no votes")
    headers = {"Content-Disposition": f'attachment; filename="votes of {site}.csv"'}
    return Response(text, content_type="text/csv; charset=utf-8", headers=headers)


def _filter(chosen: dict[str, str]) -> VoteFilter:
    return VoteFilter(result=chosen["result"], body=chosen["body"], year=chosen["year"])


def _chosen(request: Request) -> dict[str, str]:
    result = request.args.get("result") or ""
    return {
        "result": result if result in votes.OUTCOMES else "",
        "body": (request.args.get("body") or "")[:500],
        "year": (request.args.get("year") or "")[:4],
    }


async def show_vote(datasette: ArchiveDatasette, request: Request) -> Response:
    """The page of a vote."""
    site = unquote(request.url_vars["site"], errors="replace")
    key = unquote(request.url_vars["vote"], errors="replace")

    def read(connection: sqlite3.Connection) -> dict[str, Any] | None:
        found = votes.read_vote(connection, key)
        if found is None:
            return None
        path = page_path(site, found.kind, found.date, found.meeting, found.page)
        return {
            "vote": found,
            "page_path": datasette.urls.path(path),
            "meeting_path": path_of(datasette, site, found.date, found.meeting),
            "page_image": votes.page_image(connection, found),
        }

    return await _show(datasette, request, "vote_page.html", read)


async def show_person(datasette: ArchiveDatasette, request: Request) -> Response:
    """The page of a person."""
    site = unquote(request.url_vars["site"], errors="replace")
    key = unquote(request.url_vars["person"], errors="replace")

    def read(connection: sqlite3.Connection) -> dict[str, Any] | None:
        found = votes.read_person(connection, key)
        if found is None:
            return None
        cast = votes.read_votes(connection, votes.VoteFilter([key]), limit=_MAX_VOTES + 1)
        meetings = votes.read_meetings(connection, key, _MAX_VOTES)
        return {
            "person": found,
            "counts": votes.count_votes(connection, key),
            "votes": cast[:_MAX_VOTES],
            "has_more": len(cast) > _MAX_VOTES,
            "meetings": [(*row, path_of(datasette, site, *row[:2])) for row in meetings],
        }

    return await _show(datasette, request, "person_page.html", read)


async def _show(
    datasette: ArchiveDatasette,
    request: Request,
    template: str,
    read: Callable[[sqlite3.Connection], dict[str, Any] | None],
    **values: Any,
) -> Response:
    site = unquote(request.url_vars["site"], errors="replace")
    archive = await find_archive(datasette, site)

    def read_tables(connection: sqlite3.Connection) -> dict[str, Any] | None:
        return read(connection) if votes.has_tables(connection) else None

    found = await archive.execute_fn(read_tables)
    if found is None:
        raise NotFound("The published archive has no such vote or person")
    image = found.get("page_image")
    has_image = bool(image) and await asyncio.to_thread(datasette.image, site, image) is not None
    context = found | values | {"site": site, "name": datasette.site_metadata.name(site), "has_image": has_image}
    return Response.html(await datasette.render_template(template, context, request=request))


ROUTES = [
    (r"^/-/votes/(?P<site>[^/]+)\.csv$", show_votes_as_csv),
    (r"^/-/votes/(?P<site>[^/]+)$", show_votes),
    (r"^/-/votes/(?P<site>[^/]+)/(?P<vote>[^/]+)$", show_vote),
    (r"^/-/people/(?P<site>[^/]+)/(?P<person>[^/]+)$", show_person),
]
