"""Full-text search in the archives that are published on this machine. Each hit links to its page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from urllib.parse import quote, urlencode

from psycopg import sql
from psycopg.rows import DictRow
from starlette.requests import Request
from starlette.responses import Response

from clerk.archive.search import Hit, search
from clerk.documents.sanitize import is_subdomain
from clerk.publish.versions import published_archives
from clerk.web import paging
from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.rendering import render

_MAX_HITS = 50
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
QUERIES: list[SampleQuery] = [(_DOCUMENTS, {"sites": [], "keys": [], "kinds": [], "meetings": [], "dates": []})]


@dataclass(frozen=True)
class SearchParams:
    """Query parameters of the page. Invalid values are ignored, and `warnings` says so."""

    text: str
    site: str
    since: date | None
    warnings: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, site: str, since: str) -> SearchParams:
        site, since = site.strip().lower()[:100], since.strip()[:100]
        day = _parse_date(since)
        warnings = []
        if site and not is_subdomain(site):
            warnings.append(f"“{site}” is not a valid site name, so all archives were searched")
        if since and day is None:
            warnings.append(f"“{since}” is not a date such as 2024-05-31, so it was ignored")
        return cls(paging.parse_text(text, 200), site if is_subdomain(site) else "", day, tuple(warnings))


@dataclass(frozen=True)
class LinkedHit:
    hit: Hit
    url: str | None
    """The page in the dashboard; None if the document is not in this database."""
    source_url: str | None


def show(request: Request) -> Response:
    params = SearchParams.parse(*(request.query_params.get(name, "") for name in ("q", "site", "since")))
    publish_dir: Path | None = request.app.state.publish_dir
    archives = result = error_message = None
    hits: list[LinkedHit] = []
    try:
        if publish_dir is not None and publish_dir.is_dir():
            archives = published_archives(publish_dir, params.site or None)
            result = search(archives, params.text, params.since, _MAX_HITS, _TIMEOUT)
            hits = link_hits(request.app.state.pool, result.hits, params.text)
    except OSError as error:
        error_message = f"The archives on this machine cannot be read: {error.strerror}."
    return render(
        "search.html",
        params=params,
        archives=archives,
        result=result,
        hits=hits,
        error_message=error_message,
        max_hits=_MAX_HITS,
        timeout=_TIMEOUT,
    )


def link_hits(pool: ReadOnlyPool, hits: list[Hit], text: str) -> list[LinkedHit]:
    """Add the dashboard's page and the source of each hit. `text` is highlighted there."""
    documents: dict[int, DictRow] = {}
    if hits:
        values = {
            "sites": [hit.subdomain for hit in hits],
            "keys": [storage_key(hit.page_image) for hit in hits],
            "kinds": [hit.kind for hit in hits],
            "meetings": [hit.meeting for hit in hits],
            "dates": [_parse_date(hit.date) for hit in hits],
        }
        with pool.transaction() as connection:
            documents = {row["number"]: row for row in fetch_rows(connection, _DOCUMENTS, values)}
    return [_link_hit(hit, documents.get(number), text) for number, hit in enumerate(hits, 1)]


def _link_hit(hit: Hit, document: DictRow | None, text: str) -> LinkedHit:
    if document is None:
        return LinkedHit(hit, None, None)
    query = urlencode({"page": hit.page, "q": text})
    url = f"/sites/{quote(hit.subdomain)}/documents/{document['id']}?{query}#pages"
    return LinkedHit(hit, url, document["source_url"])


def storage_key(page_image: str | None) -> str | None:
    """`/_agendas/Council/2024-03-05_r2/7.png` → `_agendas/pdfs/Council/2024-03-05_r2.pdf`."""
    match = re.fullmatch(r"/(_agendas/)?([^/]+)/([^/]+)/\d+\.png", page_image or "")
    return f"{match[1] or ''}pdfs/{match[2]}/{match[3]}.pdf" if match else None


def _parse_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
