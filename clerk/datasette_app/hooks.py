"""Datasette plugin hooks: the index of sites, their metadata, facets, full-text search and page images."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from datasette import hookimpl
from datasette.utils.asgi import NotFound, Request, Response, asgi_send_file
from markupsafe import Markup

from clerk.archive import search
from clerk.archive.content_hash import OTHER_DOCUMENTS, has_table, open_readonly
from clerk.datasette_app import query_limits
from clerk.datasette_app.lazy_datasette import ArchiveDatasette

_MAX_SITES = 500
"""Sites on the index page; the filter finds the others."""
_MAX_HITS = 100
_TABLES = {
    "minutes": {"facets": ["meeting", "date"], "sort_desc": "date", "description": "A row per page of minutes."},
    "agendas": {"facets": ["meeting", "date"], "sort_desc": "date", "description": "A row per page of an agenda."},
    "other_documents": {
        "facets": ["kind", "meeting", "date"],
        "sort_desc": "date",
        "description": "A row per page of a packet, ordinance, resolution, report or notice.",
    },
}


def _search_query(title: str, sql: str) -> dict[str, Any]:
    # Datasette makes a form field of every parameter: visitors should enter only the words and the date.
    sql = sql.replace(":mark_start", "'['").replace(":mark_end", "']'").replace(":limit", str(_MAX_HITS)).strip()
    return {"title": title, "sql": sql, "params": ["words", "since"], "hide_sql": True}


_QUERIES = {"search": _search_query("Search minutes and agendas", search.SEARCH_SQL)}
_OTHER_QUERIES = {
    "search_other_documents": _search_query(
        "Search packets, ordinances, resolutions, reports and notices", search.SEARCH_OTHER_SQL
    )
}


@functools.lru_cache(maxsize=4096)
def _has_other_documents(database: str) -> bool:
    """Whether a published version has other documents. A version never changes."""
    with open_readonly(Path(database)) as connection:
        return has_table(connection, OTHER_DOCUMENTS)


class _DatabasesMetadata(dict[str, Any]):
    """Metadata of all databases, computed at each lookup."""

    def __init__(self, datasette: ArchiveDatasette) -> None:
        super().__init__()
        self._datasette = datasette

    def get(self, subdomain: str, default: Any = None) -> Any:
        queries = {**_QUERIES, **(_OTHER_QUERIES if self._has_other_documents(subdomain) else {})}
        return {**self._datasette.site_metadata.metadata(subdomain), "tables": _TABLES, "queries": queries}

    def _has_other_documents(self, subdomain: str) -> bool:
        try:
            return _has_other_documents(str(self._datasette.archive(subdomain).path))
        except (KeyError, sqlite3.Error):
            return False  # not published, or damaged: Datasette reports that where the archive is opened

    def __bool__(self) -> bool:
        return True

    def __deepcopy__(self, memo: object) -> _DatabasesMetadata:
        return self


@hookimpl
def get_metadata(datasette: ArchiveDatasette) -> dict[str, Any]:
    return {"title": "Meeting archives", "databases": _DatabasesMetadata(datasette)}


@hookimpl
def prepare_connection(conn: sqlite3.Connection) -> None:
    query_limits.limit(conn)
    search.prepare(conn)


@hookimpl
def render_cell(value: Any, column: str, database: str, datasette: ArchiveDatasette) -> Markup | None:
    if column != "page_image" or not isinstance(value, str) or datasette.image(database, value) is None:
        return None
    path = datasette.urls.path(f"/-/images/{database}{quote(value)}")
    return Markup('<a href="{}">{}</a>').format(path, value)


@hookimpl
def register_routes() -> list[tuple[str, Any]]:
    return [
        (r"^/$", index),
        (r"^/\.json$", index_as_json),
        (r"^/-/images/(?P<site>[^/]+)(?P<page_image>/.+)$", image),
    ]


async def index(datasette: ArchiveDatasette, request: Request) -> Response:
    words = request.args.get("q") or ""
    sites = await _sites(datasette, words)
    context = {"sites": sites[:_MAX_SITES], "more": max(0, len(sites) - _MAX_SITES), "q": words}
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
                }
            )
    return sites


async def image(datasette: ArchiveDatasette, request: Request, send: Any) -> None:
    path = await asyncio.to_thread(
        datasette.image, request.url_vars["site"], unquote(request.url_vars["page_image"], errors="replace")
    )
    if path is None:
        raise NotFound("There is no such image")
    await asgi_send_file(send, path, content_type="image/png")
