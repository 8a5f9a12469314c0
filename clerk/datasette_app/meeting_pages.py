"""The meetings of a site in `clerk serve`: a list, and a readable page per meeting with its documents and votes."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import asdict
from typing import Any

from datasette.utils.asgi import NotFound, Request, Response

from clerk.archive.hits import MEETING_ROUTE, cite_meeting, page_path
from clerk.archive.meetings import Meeting, MeetingRow, count_meetings, list_meetings, read_meeting
from clerk.archive.query import InvalidQuery, parse
from clerk.archive.query_parser import MAX_LENGTH
from clerk.datasette_app.document_pages import describe_files
from clerk.datasette_app.lazy_datasette import ArchiveDatasette
from clerk.datasette_app.search_pages import mark
from clerk.datasette_app.site_pages import (
    PER_PAGE,
    ListPage,
    find_archive,
    path_of_image,
    path_of_meeting,
    url_part,
)

_MAX_TEXT = 100_000
"""Characters of one page that are shown; the permanent page of the page has the rest."""


def describe(datasette: ArchiveDatasette, site: str, rows: list[MeetingRow]) -> list[dict[str, Any]]:
    """The meetings for a template, with their addresses."""
    return [{**asdict(row), "path": path_of_meeting(datasette, site, row.date, row.meeting)} for row in rows]


async def show_meetings(datasette: ArchiveDatasette, request: Request) -> Response:
    """All meetings of a site, the newest first, by body and year."""
    site = url_part(request, "site")
    archive = await find_archive(datasette, site)
    limits = {"body": 500, "year": 4}
    chosen = {name: (request.args.get(name) or "")[:length] for name, length in limits.items()}
    listed = ListPage(datasette, request, MEETING_ROUTE, chosen)

    def read(connection: sqlite3.Connection) -> tuple[list[MeetingRow], dict[str, dict[str, int]]]:
        rows = list_meetings(connection, **chosen, limit=PER_PAGE + 1, offset=listed.offset)
        return rows, count_meetings(connection, **chosen)

    rows, counts = await archive.execute_fn(read)
    context = {
        "site": site,
        "name": datasette.site_metadata.name(site),
        "meetings": describe(datasette, site, rows[:PER_PAGE]),
        "counts": counts,
        **listed.context(rows),
    }
    return Response.html(await datasette.render_template("meetings.html", context, request=request))


async def show_meeting(datasette: ArchiveDatasette, request: Request) -> Response:
    site, day, name = (url_part(request, part) for part in ("site", "date", "meeting"))
    archive = await find_archive(datasette, site)

    def read(connection: sqlite3.Connection) -> Meeting | None:
        return read_meeting(connection, day, name)

    meeting = await archive.execute_fn(read)
    if meeting is None:
        raise NotFound("The archive has no such meeting")
    words = (request.args.get("q") or "")[:MAX_LENGTH]
    site_name = datasette.site_metadata.name(site)
    context = {
        "site": site,
        "name": site_name,
        "meeting": meeting,
        "documents": await asyncio.to_thread(_documents, datasette, site, meeting, words),
        "votes": meeting.votes,
        "people": meeting.people,
        "citation": cite_meeting(site_name, day, name),
        "permanent_path": path_of_meeting(datasette, site, day, name),
        "q": words,
    }
    return Response.html(await datasette.render_template("meeting_page.html", context, request=request))


def _documents(datasette: ArchiveDatasette, site: str, meeting: Meeting, words: str) -> list[dict[str, Any]]:
    """The documents with their texts, in which the words of a search are highlighted."""
    try:
        query = parse(words) if words else None
    except InvalidQuery:
        query = None
    documents = []
    for document in meeting.documents:
        pages = []
        for page in document.pages:
            path = page_path(site, document.kind, meeting.date, meeting.meeting, page.page)
            image = page.page_image if page.page_image and datasette.has_image(site, page.page_image) else None
            text = page.text[:_MAX_TEXT]
            pages.append(
                {
                    "number": page.page,
                    "text": mark(query.highlight(text) if query else text),
                    "is_cut": len(page.text) > _MAX_TEXT,
                    "path": str(datasette.urls.path(path)),
                    "image": path_of_image(datasette, site, image) if image else None,
                }
            )
        texts = {page.page: page.text for page in document.pages}
        files = describe_files(datasette, site, document.kind, meeting.date, meeting.meeting, texts)
        documents.append({"document": document, "kind": document.kind, "pages": pages, "files": files})
    return documents


ROUTES = [
    (rf"^{MEETING_ROUTE}/(?P<site>[^/]+)$", show_meetings),
    (rf"^{MEETING_ROUTE}/(?P<site>[^/]+)/(?P<date>[^/]+)/(?P<meeting>.+)$", show_meeting),
]
