"""Votes and people in `clerk serve`: the votes of a site by result, body and year, its people, a page for each."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from datasette.utils.asgi import NotFound, Request, Response

from clerk.archive import vote_rows, votes
from clerk.archive.hits import page_path
from clerk.archive.votes import VoteFilter
from clerk.datasette_app.lazy_datasette import ArchiveDatasette
from clerk.datasette_app.site_pages import (
    PER_PAGE,
    ListPage,
    find_archive,
    path_of_image,
    path_of_meeting,
    url_part,
)

_MAX_VOTES = 500
"""Votes on the page of a person; the table has the others."""


async def show_votes(datasette: ArchiveDatasette, request: Request) -> Response:
    """The votes of a site, the newest first."""
    listed = ListPage(datasette, request, "/-/votes", _chosen(request))

    def read(connection: sqlite3.Connection, site: str) -> dict[str, Any]:
        chosen = VoteFilter(None, **listed.filters)
        rows = votes.read_votes(connection, chosen, PER_PAGE + 1, listed.offset)
        counts = votes.count_by_facet(connection, chosen)
        return {
            "votes": [(vote, path_of_meeting(datasette, site, vote.date, vote.meeting)) for vote in rows[:PER_PAGE]],
            "counts": counts,
            "total": sum(counts["result"].values()),
            **listed.context(rows),
        }

    return await _show(datasette, request, "votes.html", read)


async def show_votes_as_csv(datasette: ArchiveDatasette, request: Request) -> Response:
    site = url_part(request, "site")

    def read(connection: sqlite3.Connection, site: str) -> str:
        found = votes.read_votes(connection, VoteFilter(None, **_chosen(request)))
        return vote_rows.as_csv(vote_rows.VOTE_FIELDS, (vote_rows.vote_row(site, vote) for vote in found))

    headers = {"Content-Disposition": f'attachment; filename="votes of {site}.csv"'}
    text = await _read(datasette, site, read)
    return Response(text, content_type="text/csv; charset=utf-8", headers=headers)


def _chosen(request: Request) -> dict[str, str]:
    result = request.args.get("result") or ""
    return {
        "result": result if result in votes.OUTCOMES else "",
        "body": (request.args.get("body") or "")[:500],
        "year": (request.args.get("year") or "")[:4],
    }


async def show_vote(datasette: ArchiveDatasette, request: Request) -> Response:
    def read(connection: sqlite3.Connection, site: str) -> dict[str, Any] | None:
        vote = votes.read_vote(connection, url_part(request, "vote"))
        if vote is None:
            return None
        image = votes.page_image(connection, vote)
        return {
            "vote": vote,
            "page_path": datasette.urls.path(page_path(site, vote.kind, vote.date, vote.meeting, vote.page)),
            "meeting_path": path_of_meeting(datasette, site, vote.date, vote.meeting),
            "image_path": path_of_image(datasette, site, image) if image and datasette.image(site, image) else None,
        }

    return await _show(datasette, request, "vote_page.html", read)


async def show_people(datasette: ArchiveDatasette, request: Request) -> Response:
    """The people of a site, those with most votes first."""
    listed = ListPage(datasette, request, "/-/people", {"q": (request.args.get("q") or "")[:100]})

    def read(connection: sqlite3.Connection, site: str) -> dict[str, Any]:
        rows = votes.find_people(connection, listed.filters["q"], PER_PAGE + 1, listed.offset)
        return {"people": rows[:PER_PAGE], **listed.context(rows)}

    return await _show(datasette, request, "people.html", read)


async def show_person(datasette: ArchiveDatasette, request: Request) -> Response:
    def read(connection: sqlite3.Connection, site: str) -> dict[str, Any] | None:
        person = votes.read_person(connection, url_part(request, "person"))
        if person is None:
            return None
        cast = votes.read_votes(connection, VoteFilter([person.id]), limit=_MAX_VOTES + 1)
        meetings = votes.read_meetings(connection, person.id, _MAX_VOTES)
        return {
            "person": person,
            "counts": votes.count_votes(connection, person.id),
            "votes": cast[:_MAX_VOTES],
            "has_more": len(cast) > _MAX_VOTES,
            "meetings": [(*row, path_of_meeting(datasette, site, *row[:2])) for row in meetings],
        }

    return await _show(datasette, request, "person_page.html", read)


async def _show(
    datasette: ArchiveDatasette,
    request: Request,
    template: str,
    read: Callable[[sqlite3.Connection, str], dict[str, Any] | None],
) -> Response:
    site = url_part(request, "site")
    context = await _read(datasette, site, read) | {"site": site, "name": datasette.site_metadata.name(site)}
    return Response.html(await datasette.render_template(template, context, request=request))


async def _read(datasette: ArchiveDatasette, site: str, read: Callable[[sqlite3.Connection, str], Any]) -> Any:
    """What `read` finds in the archive of a site; NotFound if it finds nothing, or if the archive has no votes."""
    archive = await find_archive(datasette, site)
    found = await archive.execute_fn(lambda db: read(db, site) if votes.has_tables(db) else None)
    if found is None:
        raise NotFound("The published archive has no such vote or person")
    return found


ROUTES = [
    (r"^/-/votes/(?P<site>[^/]+)\.csv$", show_votes_as_csv),
    (r"^/-/votes/(?P<site>[^/]+)$", show_votes),
    (r"^/-/votes/(?P<site>[^/]+)/(?P<vote>[^/]+)$", show_vote),
    (r"^/-/people/(?P<site>[^/]+)$", show_people),
    (r"^/-/people/(?P<site>[^/]+)/(?P<person>[^/]+)$", show_person),
]
