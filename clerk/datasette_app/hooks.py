"""What clerk adds to Datasette, on its public hooks: the list of sites, who they are, facets, and page images."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote, unquote

from datasette import hookimpl
from datasette.utils.asgi import NotFound, Request, Response, asgi_send_file
from markupsafe import Markup

from clerk.datasette_app.lazy_datasette import ArchiveDatasette

_MOST = 500
"""Sites on one page; the filter finds the others."""
_TABLES = {
    "minutes": {"facets": ["meeting", "date"], "sort_desc": "date", "description": "A row per page of minutes."},
    "agendas": {"facets": ["meeting", "date"], "sort_desc": "date", "description": "A row per page of an agenda."},
}
_SEARCH = """
select 'minutes' as kind, p.meeting, p.date, p.page, snippet(minutes_fts, 0, '[', ']', ' … ', 24) as found, p.page_image
from minutes_fts join minutes p on p.rowid = minutes_fts.rowid
where minutes_fts match escape_fts(:words)
union all
select 'agenda', p.meeting, p.date, p.page, snippet(agendas_fts, 0, '[', ']', ' … ', 24), p.page_image
from agendas_fts join agendas p on p.rowid = agendas_fts.rowid
where agendas_fts match escape_fts(:words)
order by date desc limit 100
"""
_QUERIES = {"search": {"title": "Search minutes and agendas", "sql": _SEARCH.strip(), "hide_sql": True}}


class _EverySite(dict[str, Any]):
    """What Datasette reads as a dictionary of all databases: each is made up when it is looked for."""

    def __init__(self, library: ArchiveDatasette) -> None:
        super().__init__()
        self._library = library

    def get(self, subdomain: str, default: Any = None) -> Any:
        return {**self._library.facts.metadata(subdomain), "tables": _TABLES, "queries": dict(_QUERIES)}

    def __bool__(self) -> bool:
        return True

    def __deepcopy__(self, memo: object) -> _EverySite:
        return self


@hookimpl
def get_metadata(datasette: ArchiveDatasette) -> dict[str, Any]:
    return {"title": "Meeting archives", "databases": _EverySite(datasette)}


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
    found = await _sites(datasette, words)
    shown = {"sites": found[:_MOST], "more": max(0, len(found) - _MOST), "q": words}
    return Response.html(await datasette.render_template("sites.html", shown, request=request))


async def index_as_json(datasette: ArchiveDatasette, request: Request) -> Response:
    return Response.json({"sites": await _sites(datasette, request.args.get("q") or "")})


async def _sites(datasette: ArchiveDatasette, words: str) -> list[dict[str, Any]]:
    """Those whose name, state or subdomain has every word."""
    wanted = words.casefold().split()
    found = []
    for archive in await asyncio.to_thread(datasette.published):
        name, state = datasette.facts.name(archive.name), datasette.facts.state(archive.name)
        about = f"{archive.name} {name} {state}".casefold()
        if all(word in about for word in wanted):
            found.append(
                {
                    "site": archive.name,
                    "name": name,
                    "state": state,
                    "pages": archive.version.pages,
                    "published_at": archive.version.published_at,
                    "path": str(datasette.urls.database(archive.name)),
                }
            )
    return found


async def image(datasette: ArchiveDatasette, request: Request, send: Any) -> None:
    found = await asyncio.to_thread(
        datasette.image, request.url_vars["site"], unquote(request.url_vars["page_image"], errors="replace")
    )
    if found is None:
        raise NotFound("There is no such image")
    await asgi_send_file(send, found, content_type="image/png")
