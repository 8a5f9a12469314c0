"""Full-text search in the archives that are published on this machine. Each hit links to its page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from urllib.parse import quote, urlencode

from psycopg import sql
from psycopg.rows import DictRow
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from clerk.archive.hits import Hit
from clerk.archive.query_parser import MAX_LENGTH
from clerk.object_storage.path import StoragePath
from clerk.publish.published_search import search_published
from clerk.publish.search_csv import SearchCsv, file_name
from clerk.publish.search_form import PAGE_SIZE, Facet, SearchForm, count_pages
from clerk.publish.search_suggestions import Suggestion, suggest
from clerk.publish.versions import current_versions
from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.paging import ResultPage
from clerk.web.rendering import render

_PATH = "/search"
_TIMEOUT = 8.0
# By the storage key of the PDF, which follows from the path of the page's image and is unique in a site. A page without
# an image is found by the meeting: `Council (2)` is a body of that name or the second meeting of `Council` on that day.
_DOCUMENTS = sql.SQL("""
    with wanted as (
        select *
        from unnest(%(sites)s::text[], %(keys)s::text[], %(kinds)s::text[], %(meetings)s::text[], %(dates)s::date[])
        with ordinality as w (subdomain, storage_key, kind, meeting, date, number)
    )
    select w.number, d.id, d.source_url
    from wanted w
    join site_documents d on d.subdomain = w.subdomain and d.storage_key = w.storage_key
    union all
    select w.number, d.id, d.source_url
    from wanted w
    cross join lateral (
        select d.id, d.source_url
        from site_documents d
        where d.subdomain = w.subdomain and d.kind = w.kind and d.date = w.date
          and d.meeting in (w.meeting, regexp_replace(w.meeting, ' \\([0-9]+\\)$', ''))
          and (d.meeting = w.meeting or d.occurrence > 1)
        order by d.meeting = w.meeting and d.occurrence = 1 desc,
                 w.meeting = format('%%s (%%s)', d.meeting, d.occurrence) desc,
                 d.ocr_status = 'processed' desc nulls last, d.revision desc
        limit 1
    ) d
    where w.storage_key is null
""")
_HAS_PUBLICATIONS = sql.SQL("""
    select exists (
        select 1 from site_publications
        where deployed_at is not null and (%(site)s::text is null or subdomain = %(site)s)
    ) as found
""")
QUERIES: list[SampleQuery] = [
    (_DOCUMENTS, {"sites": [], "keys": [], "kinds": [], "meetings": [], "dates": []}),
    (_HAS_PUBLICATIONS, {"site": None}),
]


@dataclass(frozen=True)
class LinkedHit:
    hit: Hit
    url: str | None
    """The page in the dashboard; None if the document is not in this database."""
    source_url: str | None


def show(request: Request) -> Response:
    form, warnings = SearchForm.read(request.query_params)
    query, query_error = form.parse_query()
    publish_dir: StoragePath | None = request.app.state.publish_dir
    archives = result = error_message = None
    hits: list[LinkedHit] = []
    facets: list[Facet] = []
    suggestions: list[Suggestion] = []
    try:
        if publish_dir is not None and publish_dir.is_dir():
            archives = len(current_versions(publish_dir, form.site or None))
            if query is not None and archives:
                result = search_published(publish_dir, form.request(query), form.site or None, _TIMEOUT)
                hits = link_hits(request.app.state.pool, result.hits, form.q)
                facets = form.facets(result.facets, _PATH)
                suggestions = [] if result.total else suggest(publish_dir, form, query)
    except OSError as error:
        error_message = f"The archives on this machine cannot be read: {error.strerror}."
    return render(
        "search.html",
        form=form,
        link=lambda **changes: form.url(_PATH, **changes),
        warnings=warnings,
        query_error=query_error,
        archives=archives,
        nothing_published=archives is None and publish_dir is not None and not has_publications(request.app.state.pool),
        result=result,
        hits=hits,
        facets=facets,
        suggestions=suggestions,
        path=_PATH,
        csv_url=replace(form, page=1).url(f"{_PATH}.csv"),
        results=ResultPage(hits, result.total, form.page, count_pages(result.total)) if result else None,
        first=(form.page - 1) * PAGE_SIZE + 1,
        error_message=error_message,
        max_length=MAX_LENGTH,
        timeout=_TIMEOUT,
    )


def show_csv(request: Request) -> Response:
    """All results of the search, as a file that is written while it is sent."""
    form, _ = SearchForm.read(request.query_params)
    query, query_error = form.parse_query()
    publish_dir: StoragePath | None = request.app.state.publish_dir
    if query is None:
        raise HTTPException(400, query_error or "There is no text to search for.")
    if publish_dir is None or not publish_dir.is_dir():
        raise HTTPException(404, "The published archives are not on this machine.")
    results = SearchCsv(publish_dir, form, query, None)
    return csv_response(results.chunks(), file_name(form))


def csv_response(chunks: Iterable[str], name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(chunks, media_type="text/csv", headers=headers)


def has_publications(pool: ReadOnlyPool, site: str | None = None) -> bool:
    """Whether any site, or this one, was ever published, on any machine."""
    with pool.transaction() as connection:
        return bool(fetch_rows(connection, _HAS_PUBLICATIONS, {"site": site})[0]["found"])


def show_page(request: Request) -> Response:
    """Redirects the permanent path of a page to the newest revision of its document."""
    path = request.path_params
    hit = Hit(path["subdomain"], path["kind"], "", path["meeting"], path["date"], path["page"], None, "", 0, 0)
    (linked,) = link_hits(request.app.state.pool, [hit], request.query_params.get("q", ""))
    if linked.url is None:
        raise HTTPException(404, f"{hit.subdomain} has no {hit.kind} of {hit.meeting} on {hit.date}.")
    return RedirectResponse(linked.url, 302)


def link_hits(pool: ReadOnlyPool, hits: list[Hit], text: str) -> list[LinkedHit]:
    """Add the dashboard's page and the source of each hit. `text` is highlighted there."""
    documents: dict[int, DictRow] = {}
    if hits:
        values = {
            "sites": [_without_nul(hit.subdomain) for hit in hits],
            "keys": [storage_key(hit.page_image) for hit in hits],
            "kinds": [_without_nul(hit.kind) for hit in hits],
            "meetings": [_without_nul(hit.meeting) for hit in hits],
            "dates": [_parse_date(hit.date) for hit in hits],
        }
        with pool.transaction() as connection:
            documents = {row["number"]: row for row in fetch_rows(connection, _DOCUMENTS, values)}
    return [_link_hit(hit, documents.get(number), text) for number, hit in enumerate(hits, 1)]


def _link_hit(hit: Hit, document: DictRow | None, text: str) -> LinkedHit:
    if document is None:
        return LinkedHit(hit, None, hit.source_url)
    query = urlencode({"page": hit.page} | ({"q": text} if text else {}))
    url = f"/sites/{quote(hit.subdomain)}/documents/{document['id']}?{query}#pages"
    return LinkedHit(hit, url, document["source_url"] or hit.source_url)


def storage_key(page_image: str | None) -> str | None:
    """`/_agendas/Council/2024-03-05_r2/7.png` → `_agendas/pdfs/Council/2024-03-05_r2.pdf`."""
    match = re.fullmatch(r"/(_[a-z]+/)?([^/]+)/([^/]+)/\d+\.png", page_image or "")
    return f"{match[1] or ''}pdfs/{match[2]}/{match[3]}.pdf" if match else None


def _without_nul(text: str) -> str:
    return text.replace("\0", "")


def _parse_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
