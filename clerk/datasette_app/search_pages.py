"""The search pages of `clerk serve`, and the permanent page of each page of a document."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from datasette.utils import tilde_decode
from datasette.utils.asgi import BadRequest, NotFound, Request, Response
from markupsafe import Markup

from clerk.archive.content_hash import open_readonly
from clerk.archive.hits import PAGE_ROUTE, Hit, StoredPage, cite, date_in_words, page_path, read_page, read_texts
from clerk.archive.meetings import MAX_PAGES
from clerk.archive.pages import TABLES
from clerk.archive.query import HIGHLIGHT, InvalidQuery, parse
from clerk.archive.query_parser import MAX_LENGTH
from clerk.datasette_app import query_limits
from clerk.datasette_app.document_pages import describe_files
from clerk.datasette_app.lazy_datasette import ArchiveDatasette
from clerk.datasette_app.site_pages import find_archive, path_of_image, path_of_meeting, url_part
from clerk.publish.published_search import search_published
from clerk.publish.search_csv import SearchCsv, file_name
from clerk.publish.search_form import PAGE_SIZE, SearchForm, count_pages
from clerk.publish.search_suggestions import Suggestion, suggest

_PATH = "/-/search"
_TIMEOUT = 5.0
"""Seconds."""
_MAX_CSV_ROWS = 10_000
"""Each is read from its archive, for visitors that nobody knows. `clerk search --csv` has no limit."""


async def show_search(datasette: ArchiveDatasette, request: Request) -> Response:
    context = await _search(datasette, request)
    status = 400 if context["query_error"] else 200
    return Response.html(await datasette.render_template("search.html", context, request=request), status=status)


async def show_search_as_json(datasette: ArchiveDatasette, request: Request) -> Response:
    context = await _search(datasette, request)
    form, result = context["form"], context["result"]
    if result is None:
        return Response.json({"error": context["query_error"] or "the parameter q is missing"}, status=400)
    more = form.page < context["pages"]
    return Response.json(
        {
            "query": form.q,
            "total": result.total,
            "page": form.page,
            "pages": context["pages"],
            "next_url": form.url(f"{context['path']}.json", page=form.page + 1) if more else None,
            "archives": result.archives,
            "broken": result.broken,
            "unreached": result.unreached,
            "warnings": context["warnings"],
            "facets": result.facets.as_dict(),
            "hits": [_as_dict(datasette, hit) for hit in result.hits],
        }
    )


async def show_search_as_csv(datasette: ArchiveDatasette, request: Request) -> Response:
    form, _, _ = await _read_form(datasette, request)
    query, query_error = form.parse_query()
    if query is None:
        raise BadRequest(query_error or "the parameter q is missing")
    results = await asyncio.to_thread(SearchCsv, datasette.publish_dir, form, query, _TIMEOUT, _MAX_CSV_ROWS)
    if results.first.unreached:
        raise BadRequest("the search takes too long for a file of all results: choose a site, or use rarer words")
    text = await asyncio.to_thread(lambda: "".join(results.chunks()))
    headers = {"Content-Disposition": f'attachment; filename="{file_name(form)}"'}
    return Response(text, content_type="text/csv; charset=utf-8", headers=headers)


async def _read_form(datasette: ArchiveDatasette, request: Request) -> tuple[SearchForm, list[str], str]:
    """The form, what is wrong with its values, and the site that the path names, if any."""
    values = {name: request.args.get(name) or "" for name in asdict(SearchForm())}
    site = tilde_decode(request.url_vars["site"]) if "site" in request.url_vars else ""
    form, warnings = SearchForm.read(values | ({"site": site} if site else {}))
    if site:
        await find_archive(datasette, site)
    return form, warnings, site


async def _search(datasette: ArchiveDatasette, request: Request) -> dict[str, Any]:
    form, warnings, site = await _read_form(datasette, request)
    path = str(datasette.urls.database(site)) + "/search" if site else str(datasette.urls.path(_PATH))
    # The path names the site, so the links need not.
    linked = replace(form, site="") if site else form
    query, query_error = form.parse_query()
    result = None
    suggestions: list[Suggestion] = []
    if query is not None:
        result = await asyncio.to_thread(
            search_published, datasette.publish_dir, form.request(query), form.site or None, _TIMEOUT
        )
        if not result.total:
            suggestions = await asyncio.to_thread(suggest, datasette.publish_dir, form, query)
    pages = count_pages(result.total) if result else 1
    return {
        "form": linked,
        "site": site,
        "site_name": datasette.site_metadata.name(site) if site else "",
        "path": path,
        "warnings": warnings,
        "query_error": query_error[:1].upper() + query_error[1:],
        "result": result,
        "hits": [_as_dict(datasette, hit) | {"marked": mark(hit.snippet)} for hit in result.hits] if result else [],
        "facets": linked.facets(result.facets, path, without_site=bool(site)) if result else [],
        "site_names": datasette.site_metadata.name,
        "suggestions": [_suggestion(datasette, suggestion, site, path) for suggestion in suggestions],
        "csv_url": replace(linked, page=1).url(f"{path}.csv"),
        "max_csv_rows": _MAX_CSV_ROWS,
        "pages": pages,
        "first": (form.page - 1) * PAGE_SIZE + 1,
        "previous": linked.url(path, page=form.page - 1) if form.page > 1 else None,
        "next": linked.url(path, page=form.page + 1) if form.page < pages else None,
        "timeout": _TIMEOUT,
        "max_length": MAX_LENGTH,
    }


def _suggestion(datasette: ArchiveDatasette, suggestion: Suggestion, site: str, path: str) -> dict[str, Any]:
    """A suggestion without filters searches all archives, also from the page of one."""
    form = suggestion.form
    stays = bool(site) and form.site == site
    url = replace(form, site="").url(path) if stays else form.url(str(datasette.urls.path(_PATH)))
    return asdict(suggestion) | {"q": form.q, "url": url}


def _as_dict(datasette: ArchiveDatasette, hit: Hit) -> dict[str, Any]:
    name = datasette.site_metadata.name(hit.subdomain)
    place = (hit.kind, hit.date, hit.meeting, hit.page)
    return hit.as_dict() | {
        "site_name": name,
        "citation": cite(name, *place, hit.source_url),
        "path": str(datasette.urls.path(hit.path)),
        "meeting_path": path_of_meeting(datasette, hit.subdomain, hit.date, hit.meeting),
    }


async def show_page(datasette: ArchiveDatasette, request: Request) -> Response:
    parts = {name: url_part(request, name) for name in request.url_vars}
    site, kind, meeting, number = parts["site"], parts["kind"], parts["meeting"], int(parts["page"])
    archive = await find_archive(datasette, site)
    if kind not in TABLES:
        raise NotFound("The archive has no such page")

    def read() -> tuple[StoredPage | None, dict[int, str]]:
        with open_readonly(Path(archive.path)) as connection:
            query_limits.limit(connection)
            place = (connection, kind, parts["date"], meeting)
            return read_page(*place, number), read_texts(*place, limit=MAX_PAGES)

    page, texts = await asyncio.to_thread(read)
    if page is None:
        raise NotFound("The archive has no such page")
    words = (request.args.get("q") or "")[:MAX_LENGTH]
    try:
        text = parse(words).highlight(page.text)
    except InvalidQuery:
        text = page.text
    name = datasette.site_metadata.name(site)
    query = f"?{urlencode({'q': words})}" if words else ""

    def link(to: int) -> str:
        return str(datasette.urls.path(page_path(site, kind, parts["date"], meeting, to))) + query

    image = page.page_image if page.page_image and datasette.image(site, page.page_image) else None
    files = await asyncio.to_thread(describe_files, datasette, site, kind, parts["date"], meeting, texts)
    context = {
        "title": f"{meeting}, {kind} of {date_in_words(parts['date'])}, page {number}",
        "meeting": meeting,
        "date": parts["date"],
        "number": number,
        "site": site,
        "site_name": name,
        "site_path": datasette.urls.database(site),
        "page": page,
        "text": mark(text),
        "files": files,
        "permanent_path": str(datasette.urls.path(page_path(site, kind, parts["date"], meeting, number))),
        "citation": cite(name, kind, parts["date"], meeting, number, page.source_url),
        "meeting_path": path_of_meeting(datasette, site, parts["date"], meeting),
        "row_path": datasette.urls.row(site, TABLES[kind], page.id),
        "image_path": path_of_image(datasette, site, image) if image else None,
        "previous": link(number - 1) if page.has_previous else None,
        "next": link(number + 1) if page.has_next else None,
    }
    return Response.html(await datasette.render_template("page.html", context, request=request))


def mark(text: str) -> Markup:
    """The text as HTML, with its HIGHLIGHT marks as <mark>."""
    parts = re.split(f"[{''.join(HIGHLIGHT)}]", text)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )


ROUTES = [
    (r"^/-/search$", show_search),
    (r"^/-/search\.json$", show_search_as_json),
    (r"^/-/search\.csv$", show_search_as_csv),
    (r"^/(?P<site>[^/]+)/search$", show_search),
    (r"^/(?P<site>[^/]+)/search\.json$", show_search_as_json),
    (r"^/(?P<site>[^/]+)/search\.csv$", show_search_as_csv),
    (
        rf"^{PAGE_ROUTE}/(?P<site>[^/]+)/(?P<kind>[a-z]+)/(?P<date>[^/]+)/(?P<meeting>.+)/(?P<page>\d{{1,7}})$",
        show_page,
    ),
]
