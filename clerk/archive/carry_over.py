"""Copies the rows of documents whose text files are lost from older copies of the archive.

If meetings.db is lost too, the rows come from a published version. Without them the next publication would remove
pages that readers already have.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from clerk.archive import content_hash, integrity
from clerk.archive.content_hash import OTHER_DOCUMENTS
from clerk.archive.pages import CarriedOver
from clerk.errors import PagesWouldVanish
from clerk.extraction.schema import with_result_text
from clerk.humanize import pluralize
from clerk.object_storage.path import StoragePath

_COLUMNS = "id, meeting, date, page, text, page_image, entities_json, votes_json"
_VOTES_JSON = 7
"""Its position in _COLUMNS."""
_SELECT = {
    "minutes": f"select {_COLUMNS} from minutes where meeting = ? and date = ? order by page",  # noqa: S608 (constant)
    "agendas": f"select {_COLUMNS} from agendas where meeting = ? and date = ? order by page",  # noqa: S608 (constant)
    OTHER_DOCUMENTS: f"select {_COLUMNS}, kind from other_documents where meeting = ? and date = ? and kind = ?"  # noqa: S608 (constant)
    " order by page",
}
_INSERT = {
    "minutes": f"insert into minutes ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 (constant)
    "agendas": f"insert into agendas ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 (constant)
    OTHER_DOCUMENTS: f"insert into other_documents ({_COLUMNS}, kind) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 (constant)
}


@dataclass(frozen=True)
class PublishedCopies:
    """The published versions of a site."""

    copies: tuple[StoragePath, ...] = ()
    """Databases that this machine can read, newest first."""
    is_published: bool = False
    """Whether any deployer has published the site, here or elsewhere."""


NOT_PUBLISHED = PublishedCopies()


def carry_over(
    connection: sqlite3.Connection, documents: Iterable[CarriedOver], database: StoragePath, published: PublishedCopies
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
                    connection.executemany(_INSERT[document.table], map(_with_result_text, rows))
                    missing.remove(document)
            has_intact_copy = True
    if missing and published.is_published and not has_intact_copy:
        first = min(missing, key=lambda document: (document.date, document.meeting))
        lost = pluralize(len(missing), "document")
        raise PagesWouldVanish(
            f"the texts of {lost} are lost (the first: {first.meeting} {first.date}), meetings.db"
            " is lost too, and there is no intact published version on this machine"
        )


def _with_result_text(row: tuple[object, ...]) -> tuple[object, ...]:
    votes_json = row[_VOTES_JSON]
    if not isinstance(votes_json, str):
        return row
    return (*row[:_VOTES_JSON], with_result_text(votes_json), *row[_VOTES_JSON + 1 :])


class _TableOrColumnMissing(Exception):
    """The database lacks a table or column of meetings.db."""


def _rows(connection: sqlite3.Connection, document: CarriedOver) -> list[tuple[object, ...]]:
    values = [document.meeting, document.date]
    if document.table == OTHER_DOCUMENTS:
        if not content_hash.has_table(connection, OTHER_DOCUMENTS):
            return []  # an archive of an older version
        values.append(document.kind)
    try:
        return connection.execute(_SELECT[document.table], values).fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # no such table, no such column
            raise _TableOrColumnMissing from error
        raise
