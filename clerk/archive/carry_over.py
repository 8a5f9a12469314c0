"""Copies the rows of documents whose text files are lost from older copies of the archive.

If meetings.db is lost too, the rows come from a published version. Without them the next publication would remove
pages that readers already have.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from clerk.archive import content_hash, integrity
from clerk.archive.pages import CarriedOver
from clerk.errors import PagesWouldVanish
from clerk.extraction.schema import with_result_text

_COLUMNS = "id, meeting, date, page, text, page_image, entities_json, votes_json"
_PAGES = {
    table: (
        f"select {_COLUMNS} from {table} where meeting = ? and date = ? order by page",  # noqa: S608 (our own names)
        f"insert into {table} ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 (our own names)
    )
    for table in ("minutes", "agendas")
}


@dataclass(frozen=True)
class PublishedCopies:
    """The published versions of a site."""

    copies: tuple[Path, ...] = ()
    """Databases on this machine, newest first."""
    is_published: bool = False
    """Whether any deployer has published the site, here or elsewhere."""


NOT_PUBLISHED = PublishedCopies()


def carry_over(
    connection: sqlite3.Connection, documents: Iterable[CarriedOver], database: Path, published: PublishedCopies
) -> None:
    """Insert the missing rows of `documents`, from `database` or the newest published copy that has them.

    If an intact copy has no rows of a document, the document never was in the archive.
    """
    missing = {document for document in documents if not _rows(connection, document)}
    has_intact_copy = False
    for copy in (database, *published.copies):
        if not missing:
            return
        if integrity.find_problem(copy) is not None:
            continue
        with content_hash.open_readonly(copy) as source, contextlib.suppress(_TableOrColumnMissing):
            for document in list(missing):
                if rows := _rows(source, document):
                    connection.executemany(_PAGES[document.table][1], map(_with_result_text, rows))
                    missing.remove(document)
            has_intact_copy = True
    if missing and published.is_published and not has_intact_copy:
        first = min(missing, key=lambda document: (document.date, document.meeting))
        raise PagesWouldVanish(
            f"the texts of {len(missing)} documents are lost (the first: {first.meeting} {first.date}), meetings.db"
            " is lost too, and there is no intact published version on this machine"
        )


def _with_result_text(row: tuple[object, ...]) -> tuple[object, ...]:
    *values, votes_json = row
    return (*values, with_result_text(votes_json) if isinstance(votes_json, str) else votes_json)


class _TableOrColumnMissing(Exception):
    """The database lacks a table or column of meetings.db."""


def _rows(connection: sqlite3.Connection, document: CarriedOver) -> list[tuple[object, ...]]:
    try:
        return connection.execute(_PAGES[document.table][0], [document.meeting, document.date]).fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # no such table, no such column
            raise _TableOrColumnMissing from error
        raise
