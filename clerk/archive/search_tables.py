"""Fills the search tables of meetings.db and its table `document_sources` (search_tables.sql)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from clerk.archive import atomic_build
from clerk.archive.pages import PAGE_TABLES
from clerk.archive.query import ArchiveForm
from clerk.archive.selection import SelectedDocument
from clerk.archive.terms import PageTerms

_CHANGES = """
select c.page_rowid, c.indexed_text, p.text
from search_changes c left join PAGES p on p.rowid = c.page_rowid
where c.page_table = 'PAGES'
"""
_DELETE = "insert into PAGES_search (PAGES_search, rowid, words, stems) values ('delete', ?, ?, ?)"
_INSERT = "insert into PAGES_search (rowid, words, stems) values (?, ?, ?)"
_DOCUMENT_COLUMNS = "kind, meeting, date, source_url, added_at"


def detect_form(connection: sqlite3.Connection) -> ArchiveForm:
    row = connection.execute("select 1 from sqlite_master where name = 'minutes_search'").fetchone()
    return ArchiveForm.TEXT if row is None else ArchiveForm.TERMS


def update_terms(connection: sqlite3.Connection) -> None:
    """Index the pages that were inserted or changed since the last call, and remove the deleted ones."""
    for table in PAGE_TABLES:
        for rowid, indexed_text, text in connection.execute(_for_table(table, _CHANGES)).fetchall():
            if indexed_text is not None:
                connection.execute(_for_table(table, _DELETE), [rowid, *index_columns(indexed_text)])
            if text is not None:
                connection.execute(_for_table(table, _INSERT), [rowid, *index_columns(text)])
    if connection.execute("select exists (select 1 from search_changes)").fetchone() == (1,):
        connection.execute("delete from search_changes")


def update_terms_of_file(database: Path) -> None:
    """The same for a draft, after plugins changed it. Does not write to the file if nothing changed."""
    with atomic_build.open_draft(database) as connection:
        connection.execute("begin")
        update_terms(connection)
        connection.execute("commit")


def update_sources(connection: sqlite3.Connection, selected: Iterable[SelectedDocument]) -> None:
    """Make `document_sources` hold exactly these documents, writing only differences."""
    wanted = {
        (
            item.document.kind,
            item.meeting,
            item.document.date.isoformat(),
            public_url(item.document.source_url),
            item.added_at,
        )
        for item in selected
    }
    existing = set(connection.execute(f"select {_DOCUMENT_COLUMNS} from document_sources"))  # noqa: S608 (our own names)
    connection.executemany(
        "delete from document_sources where kind = ? and meeting = ? and date = ?",
        [row[:3] for row in existing - wanted],
    )
    connection.executemany("insert into document_sources values (?, ?, ?, ?, ?)", sorted(wanted - existing, key=str))


def public_url(url: str | None) -> str | None:
    """The address, if it is on the web. Other sources, such as a local folder, are not published."""
    return url if url is not None and re.match(r"https?://", url) else None


def index_columns(text: str) -> tuple[str, str]:
    """`words` and `stems` of a page, as they are indexed."""
    terms = PageTerms.of(text)
    return " ".join(terms.words), " ".join(terms.stems)


def _for_table(table: str, query: str) -> str:
    return query.replace("PAGES", table)
