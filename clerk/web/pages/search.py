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

from clerk.archive.search import Hit, SearchResult, search
from clerk.documents.sanitize import is_subdomain
from clerk.publish.versions import published_archives
from clerk.web import paging
from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.rendering import render

_MAX_HITS = 50
_TIMEOUT = 8.0
# By the storage key of the PDF, which follows from the path of the page's image and is unique in a site.
_DOCUMENTS = sql.SQL("""
    select d.subdomain, d.storage_key, d.id, d.source_url
    from unnest(%(sites)s::text[], %(keys)s::text[]) as wanted (subdomain, storage_key)
    join site_documents d on d.subdomain = wanted.subdomain and d.storage_key = wanted.storage_key
""")
QUERIES: list[SampleQuery] = [(_DOCUMENTS, {"sites": [], "keys": []})]


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
            hits = _link_hits(request.app.state.pool, result, params.text)
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


def _link_hits(pool: ReadOnlyPool, result: SearchResult, text: str) -> list[LinkedHit]:
    keys = [(hit.subdomain, storage_key(hit.page_image)) for hit in result.hits]
    documents: dict[tuple[str, str], DictRow] = {}
    if result.hits:
        with pool.transaction() as connection:
            values = {"sites": [site for site, _ in keys], "keys": [key for _, key in keys]}
            documents = {
                (row["subdomain"], row["storage_key"]): row for row in fetch_rows(connection, _DOCUMENTS, values)
            }
    return [
        _link_hit(hit, documents.get((site, key or "")), text)
        for hit, (site, key) in zip(result.hits, keys, strict=True)
    ]


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
