"""The query of a saved search, applied to the new pages of one archive."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clerk.archive.pages import TABLES
from clerk.archive.search import as_fts_query

_CREATE_NEW_PAGES = "create temp table new_pages (kind text, id text, primary key (kind, id)) without rowid"
_PAGES = {
    kind: f"""
    select p.id, p.meeting, p.date, p.page, snippet({table}_fts, 0, '', '', ' … ', 24)
    from {table}_fts
    join {table} p on p.rowid = {table}_fts.rowid
    where {table}_fts match ?
    """  # noqa: S608 (our own names)
    for kind, table in TABLES.items()
}
_ONLY_SELECTED = " and (?, p.id) in (select kind, id from temp.new_pages)"
_NEWEST_FIRST = " order by p.date desc, p.meeting, p.page"


@dataclass(frozen=True)
class MatchingPage:
    kind: str
    page_id: str
    meeting: str
    date: str
    page: int
    snippet: str


def parse_query(query: str) -> str:
    """The FTS5 query; raises ValueError with the problem."""
    if not (parsed := as_fts_query(query)):
        raise ValueError(f"the query {query!r} has no words")
    return parsed


def select_pages(archive: sqlite3.Connection, pages: Iterable[tuple[str, str]]) -> None:
    """Restrict `find_pages` to these pages, given by kind and id."""
    archive.execute(_CREATE_NEW_PAGES)
    archive.executemany("insert into new_pages (kind, id) values (?, ?)", pages)


def find_pages(archive: sqlite3.Connection, query: str) -> Iterator[MatchingPage]:
    """The selected pages that match the query: by kind, the newest meeting first."""
    parsed = parse_query(query)
    for kind, sql in _PAGES.items():
        for row in archive.execute(sql + _ONLY_SELECTED + _NEWEST_FIRST, [parsed, kind]):
            yield _page(kind, *row)


def sample_pages(archive: sqlite3.Connection, query: str, limit: int) -> list[MatchingPage]:
    """The newest pages of the archive that match the query."""
    parsed = parse_query(query)
    pages = [
        _page(kind, *row)
        for kind, sql in _PAGES.items()
        for row in archive.execute(sql + _NEWEST_FIRST + " limit ?", [parsed, limit])
    ]
    return sorted(pages, key=lambda page: page.date, reverse=True)[:limit]


def _page(kind: str, page_id: str, meeting: str, date: str, page: int, snippet: str) -> MatchingPage:
    # One line. Postgres cannot store a NUL, which the text of a page may have.
    return MatchingPage(kind, page_id, meeting, date, page, " ".join(snippet.replace("\0", " ").split()))
