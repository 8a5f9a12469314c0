"""Datasette plugin hooks: the index of sites, their metadata, facets, full-text search, page images and feeds."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from datasette import hookimpl
from datasette.utils.asgi import BadRequest, NotFound, Request, Response, asgi_send_file
from jinja2 import Environment
from markupsafe import Markup

from clerk.archive.hits import date_in_words
from clerk.archive.meetings import list_meetings
from clerk.archive.pages import PAGE_TABLES
from clerk.archive.query import ArchiveForm, InvalidQuery, parse
from clerk.archive.search_tables import detect_form
from clerk.datasette_app import cells, document_pages, meeting_pages, query_limits, search_pages, vote_pages
from clerk.datasette_app.lazy_datasette import ArchiveDatasette
from clerk.datasette_app.site_pages import find_archive
from clerk.documents.storage import local_copy
from clerk.saved_searches import feeds

_MAX_SITES = 500
"""Sites on the index page; the filter finds the others."""
_PAGES: dict[str, Any] = {"facets": ["meeting"], "sort_desc": "date"}
_TABLES: dict[str, dict[str, Any]] = {
    "minutes": _PAGES | {"title": "Minutes", "description": "One row per page of minutes."},
    "agendas": _PAGES | {"title": "Agendas", "description": "One row per page of an agenda."},
    "other_documents": _PAGES
    | {
        "title": "Other documents",
        "facets": ["kind", "meeting"],
        "description": "One row per page of a packet, ordinance, resolution, report or notice.",
    },
    "document_sources": {
        "title": "Sources of documents",
        "sort_desc": "date",
        "description": "One row per document: its address on the web, and when clerk found it.",
    },
    "search_changes": {"hidden": True},
    "votes": {
        "title": "Votes",
        "facets": ["result", "meeting"],
        "sort_desc": "date",
        "description": "One row per vote that a page states.",
    },
    "vote_rolls": {"title": "Votes by person", "facets": ["vote"], "description": "One row per person and vote."},
    "people": {
        "title": "People",
        "sort_desc": "votes",
        "label_column": "name",
        "description": "One row per person that the pages name.",
    },
}
_STATIC = Path(__file__).parent / "static"
_CONTENT_TYPES = {"clerk.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
_LATEST_MEETINGS = 10


class _DatabasesMetadata(dict[str, Any]):
    """Metadata of all databases, computed at each lookup."""

    def __init__(self, datasette: ArchiveDatasette) -> None:
        super().__init__()
        self._datasette = datasette

    def get(self, subdomain: str, default: Any = None) -> Any:
        return {**self._datasette.site_metadata.metadata(subdomain), "tables": self._tables(subdomain)}

    def _tables(self, subdomain: str) -> dict[str, dict[str, Any]]:
        """`?_search=` of a table searches the terms of its pages, if the archive has them."""
        try:
            form = self._datasette.archive(subdomain).form
        except KeyError:
            return _TABLES
        if form is ArchiveForm.TEXT:
            return _TABLES
        return _TABLES | {name: _TABLES[name] | {"fts_table": f"{name}_search"} for name in PAGE_TABLES}

    def __bool__(self) -> bool:
        return True

    def __deepcopy__(self, memo: object) -> _DatabasesMetadata:
        return self


@hookimpl
def get_metadata(datasette: ArchiveDatasette) -> dict[str, Any]:
    return {"title": "Meeting archives", "databases": _DatabasesMetadata(datasette)}


@hookimpl
def prepare_jinja2_environment(env: Environment, datasette: ArchiveDatasette) -> None:
    # Not by the hook extra_template_vars, which Datasette does not call for the page of an error.
    style = (_STATIC / "clerk.css").read_bytes()
    env.globals["style_path"] = f"/-/static-clerk/clerk.css?{hashlib.sha256(style).hexdigest()[:8]}"
    env.globals["name_of_site"] = datasette.site_metadata.name
    env.filters["date_in_words"] = date_in_words


@hookimpl(trylast=True)
def prepare_connection(conn: sqlite3.Connection) -> None:
    query_limits.limit(conn)
    form = detect_form(conn)
    # Datasette's own function of this name, which `?_search=` calls, knows no operators.
    conn.create_function("escape_fts", 1, lambda words: parse(words).as_fts(form), deterministic=True)


@hookimpl
def filters_from_request(request: Request) -> None:
    """Report what is wrong with the query of `?_search=`: SQLite hides the message of a function that fails."""
    cells.table_query.set(True)
    if (words := request.args.get("_search")) and request.args.get("_searchmode") != "raw":
        try:
            cells.table_query.set(parse(words))
        except InvalidQuery as error:
            raise BadRequest(str(error)) from error


@hookimpl
def render_cell(
    row: Any, value: Any, column: str, table: str | None, database: str, datasette: ArchiveDatasette
) -> Markup | None:
    return cells.render(row, value, column, table, database, datasette) if table else None


@hookimpl
def extra_template_vars(database: str | None, view_name: str, datasette: ArchiveDatasette) -> Any:
    """For the page of a site: when it was published, its latest meetings, and its feed."""

    async def read() -> dict[str, Any]:
        if database is None or view_name not in ("database", "DatabaseView"):
            return {}
        archive = await find_archive(datasette, database)
        rows = await archive.execute_fn(lambda connection: list_meetings(connection, limit=_LATEST_MEETINGS))
        return {
            "published_at": archive.version.published_at,
            "latest_meetings": meeting_pages.describe(datasette, database, rows),
            "feed_path": str(datasette.urls.path(f"/-/feeds/sites/{quote(database, safe='')}.atom")),
        }

    return read


@hookimpl
def register_routes() -> list[tuple[str, Any]]:
    return [
        (r"^/$", index),
        (r"^/\.json$", index_as_json),
        (r"^/-/static-clerk/(?P<name>clerk\.css|icon\.svg)$", static_file),
        (r"^/-/feeds/(?P<kind>sites|alerts)/(?P<name>[a-z0-9.-]+)\.atom$", feed),
        *search_pages.ROUTES,
        *document_pages.ROUTES,
        *meeting_pages.ROUTES,
        *vote_pages.ROUTES,
        (r"^/-/images/(?P<site>[^/]+)(?P<page_image>/.+)$", image),
    ]


async def static_file(request: Request) -> Response:
    name = request.url_vars["name"]
    # The address of the style sheet changes with its content.
    headers = {"Cache-Control": "public, max-age=604800"}
    content = (_STATIC / name).read_text(encoding="utf-8")
    return Response(content, content_type=_CONTENT_TYPES[name], headers=headers)


async def index(datasette: ArchiveDatasette, request: Request) -> Response:
    words = request.args.get("q") or ""
    sites = await _sites(datasette, words)
    context = {
        "sites": sites[:_MAX_SITES],
        "more": max(0, len(sites) - _MAX_SITES),
        "pages": sum(site["pages"] for site in sites),
        "q": words,
    }
    return Response.html(await datasette.render_template("sites.html", context, request=request))


async def index_as_json(datasette: ArchiveDatasette, request: Request) -> Response:
    return Response.json({"sites": await _sites(datasette, request.args.get("q") or "")})


async def _sites(datasette: ArchiveDatasette, words: str) -> list[dict[str, Any]]:
    """The published sites whose name, state or subdomain contains every word."""
    terms = words.casefold().split()
    sites = []
    for archive in await asyncio.to_thread(datasette.published):
        name = datasette.site_metadata.name(archive.name)
        state = datasette.site_metadata.state(archive.name)
        searchable = f"{archive.name} {name} {state}".casefold()
        if all(term in searchable for term in terms):
            sites.append(
                {
                    "site": archive.name,
                    "name": name,
                    "state": state,
                    "pages": archive.version.pages,
                    "published_at": archive.version.published_at,
                    "path": str(datasette.urls.database(archive.name)),
                    "meetings": str(datasette.urls.path(f"/-/meetings/{archive.name}")),
                    "votes": str(datasette.urls.path(f"/-/votes/{archive.name}")),
                    "people": str(datasette.urls.path(f"/-/people/{archive.name}")),
                    "feed": str(datasette.urls.path(f"/-/feeds/sites/{archive.name}.atom")),
                }
            )
    return sites


async def feed(datasette: ArchiveDatasette, request: Request) -> Response:
    """The Atom feed of a site, or of an alert that has one: a file that a worker wrote."""
    kind, name = request.url_vars["kind"], request.url_vars["name"]
    content = await asyncio.to_thread(feeds.read_file, datasette.publish_dir, kind, name)
    if content is None:
        raise NotFound("There is no such feed")
    return Response(content, content_type=feeds.CONTENT_TYPE)


async def image(datasette: ArchiveDatasette, request: Request, send: Any) -> None:
    path = await asyncio.to_thread(
        datasette.image, request.url_vars["site"], unquote(request.url_vars["page_image"], errors="replace")
    )
    if path is None:
        raise NotFound("There is no such image")
    with contextlib.ExitStack() as stack:
        file = await asyncio.to_thread(stack.enter_context, local_copy(path))
        await asgi_send_file(send, file, content_type="image/png")
