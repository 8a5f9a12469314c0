"""Looks for words in everything that is published on this machine; each hit leads to its page."""

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
from clerk.web.db import Example, ReadOnlyPool, rows
from clerk.web.rendering import page

_HITS = 50
_SECONDS = 8.0
# By the path of the PDF, which an archive tells by the path of the page's image: no two documents share it.
_DOCUMENTS = sql.SQL("""
    select d.subdomain, d.storage_key, d.id, d.source_url
    from unnest(%(sites)s::text[], %(keys)s::text[]) as wanted (subdomain, storage_key)
    join site_documents d on d.subdomain = wanted.subdomain and d.storage_key = wanted.storage_key
""")
QUERIES: list[Example] = [(_DOCUMENTS, {"sites": [], "keys": []})]


@dataclass(frozen=True)
class Question:
    """What to look for. Anything may stand in a URL: what makes no sense is left out, and said."""

    words: str
    site: str
    since: date | None
    odd: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: str, site: str, since: str) -> Question:
        site, since = site.strip().lower()[:100], since.strip()[:100]
        day = _day(since)
        odd = [f"“{site}” cannot be a site's name, so all were searched"] if site and not is_subdomain(site) else []
        odd += [f"“{since}” is no date such as 2024-05-31, so it was left out"] if since and day is None else []
        return cls(paging.text(words, 200), site if is_subdomain(site) else "", day, tuple(odd))


@dataclass(frozen=True)
class Result:
    hit: Hit
    address: str | None
    """Of the page in the dashboard; None if the database does not know the document."""
    source_url: str | None


def show(request: Request) -> Response:
    question = Question.of(*(request.query_params.get(name, "") for name in ("q", "site", "since")))
    publish_dir: Path | None = request.app.state.publish_dir
    archives = found = problem = None
    results: list[Result] = []
    try:
        if publish_dir is not None and publish_dir.is_dir():
            archives = published_archives(publish_dir, question.site or None)
            found = search(archives, question.words, question.since, _HITS, _SECONDS)
            results = _results(request.app.state.reader, found, question.words)
    except OSError as error:
        problem = f"The archives on this machine cannot be read: {error.strerror}."
    return page(
        "search.html",
        question=question,
        words=question.words,
        archives=archives,
        found=found,
        results=results,
        problem=problem,
        most=_HITS,
        seconds=_SECONDS,
    )


def _results(reader: ReadOnlyPool, found: SearchResult, words: str) -> list[Result]:
    keys = [(hit.subdomain, storage_key(hit.page_image)) for hit in found.hits]
    known: dict[tuple[str, str], DictRow] = {}
    if found.hits:
        with reader.reading() as connection:
            wanted = {"sites": [site for site, _ in keys], "keys": [key for _, key in keys]}
            known = {(row["subdomain"], row["storage_key"]): row for row in rows(connection, _DOCUMENTS, wanted)}
    return [
        _result(hit, known.get((site, key or "")), words) for hit, (site, key) in zip(found.hits, keys, strict=True)
    ]


def _result(hit: Hit, row: DictRow | None, words: str) -> Result:
    if row is None:
        return Result(hit, None, None)
    query = urlencode({"page": hit.page, "q": words})
    return Result(hit, f"/sites/{quote(hit.subdomain)}/documents/{row['id']}?{query}#pages", row["source_url"])


def storage_key(page_image: str | None) -> str | None:
    """`/_agendas/Council/2024-03-05_r2/7.png` → `_agendas/pdfs/Council/2024-03-05_r2.pdf`."""
    match = re.fullmatch(r"/(_agendas/)?([^/]+)/([^/]+)/\d+\.png", page_image or "")
    return f"{match[1] or ''}pdfs/{match[2]}/{match[3]}.pdf" if match else None


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
