"""The query of a saved search, applied to the new pages of a publication or to a sample of an archive."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clerk.archive import query as query_language
from clerk.archive.pages import TABLES
from clerk.archive.query import HIGHLIGHT, Query
from clerk.archive.terms import PageTerms

# As the search tables of an archive, so that a query finds the same pages. Archives of older versions have none.
_CREATE_INDEX = "create virtual table pages using fts5 (words, stems, tokenize='unicode61 remove_diacritics 0')"
_PAGE = {
    kind: f"select meeting, date, page, text from {table} where id = ?"  # noqa: S608 (our own names)
    for kind, table in TABLES.items()
}
_TABLES = "select name from sqlite_master where type = 'table'"
_REMOVE_MARKS = {ord(mark): None for mark in HIGHLIGHT}


@dataclass(frozen=True)
class MatchingPage:
    kind: str
    page_id: str
    meeting: str
    date: str
    page: int
    snippet: str


class NewPages:
    """An index of some pages of an archive, in memory. Close it after use."""

    def __init__(self, archive: sqlite3.Connection, pages: Iterable[tuple[str, str]]) -> None:
        """`pages`: kind and id of each page."""
        self._archive = archive
        self._pages = list(pages)
        self._index = sqlite3.connect(":memory:")
        self._index.execute(_CREATE_INDEX)
        for number, (kind, page_id) in enumerate(self._pages):
            terms = PageTerms.of(self._read(kind, page_id)[-1])
            row = [number, " ".join(terms.words), " ".join(terms.stems)]
            self._index.execute("insert into pages (rowid, words, stems) values (?, ?, ?)", row)

    def close(self) -> None:
        self._index.close()

    def find(self, query: Query) -> Iterator[MatchingPage]:
        """The pages that match, in the order in which they were given."""
        rows = self._index.execute("select rowid from pages where pages match ? order by rowid", [query.as_fts()])
        for (number,) in rows.fetchall():
            kind, page_id = self._pages[number]
            meeting, date, page, text = self._read(kind, page_id)
            yield MatchingPage(kind, page_id, meeting, date, page, _snippet(query, text))

    def _read(self, kind: str, page_id: str) -> tuple[str, str, int, str]:
        meeting, date, page, text = self._archive.execute(_PAGE[kind], [page_id]).fetchone()
        return meeting, date, page, text


def sources_of_pages(archive: sqlite3.Connection) -> list[tuple[str, str]]:
    """Each kind, and the SQL after `from` that selects its pages.

    A table of several kinds has a column `kind`. An archive of an older version may lack a table.
    """
    existing = {name for (name,) in archive.execute(_TABLES)}
    tables = list(TABLES.values())
    return [
        (kind, table if tables.count(table) == 1 else f"{table} where kind = '{kind}'")
        for kind, table in TABLES.items()
        if table in existing
    ]


def parse_query(text: str) -> Query:
    """Raises InvalidQuery, which says what to write instead."""
    return query_language.parse(text)


def sample_pages(archive: sqlite3.Connection, text: str, limit: int) -> list[MatchingPage]:
    """The newest pages of the archive that match the query, at most `limit` of each kind."""
    query = parse_query(text)
    found: list[MatchingPage] = []
    for kind, source in sources_of_pages(archive):
        sql = f"select id, meeting, date, page, text from {source} order by date desc, meeting, page"  # noqa: S608 (our own names)
        pages = (
            MatchingPage(kind, page_id, meeting, date, page, _snippet(query, page_text))
            for page_id, meeting, date, page, page_text in archive.execute(sql)
            if query.matches(page_text)
        )
        found += [page for page, _ in zip(pages, range(limit), strict=False)]
    return sorted(found, key=lambda page: page.date, reverse=True)[:limit]


def _snippet(query: Query, text: str) -> str:
    """One line without marks. Postgres cannot store a NUL, which the text of a page may have."""
    return " ".join(query.snippet(text).translate(_REMOVE_MARKS).replace("\0", " ").split())
