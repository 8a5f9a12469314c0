"""Pages of documents whose texts are gone: whatever was compiled or published before still has them.

Where meetings.db is gone as well, a new one would lack them, and to publish it would take them from readers.
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

_COLUMNS = "id, meeting, date, page, text, page_image, entities_json, votes_json"
_PAGES = {
    table: (
        f"select {_COLUMNS} from {table} where meeting = ? and date = ? order by page",  # noqa: S608 (our own names)
        f"insert into {table} ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 (likewise)
    )
    for table in ("minutes", "agendas")
}


@dataclass(frozen=True)
class PublishedCopies:
    """What readers have got of a site."""

    copies: tuple[Path, ...] = ()
    """Those that lie here, the newest first."""
    is_published: bool = False
    """Somewhere, by any deployer."""


NOTHING = PublishedCopies()


def carry_over(
    connection: sqlite3.Connection, kept: Iterable[CarriedOver], present: Path, earlier: PublishedCopies
) -> None:
    """Fill in what the new archive has no rows of, from the present one or the newest copy that has some.

    A whole copy without any rows of a document says that it never was in the archive.
    """
    missing = {one for one in kept if not _rows(connection, one)}
    told = False
    for copy in (present, *earlier.copies):
        if not missing:
            return
        if integrity.find_problem(copy) is not None:
            continue
        with content_hash.open_readonly(copy) as older, contextlib.suppress(_SchemaMismatch):
            for one in list(missing):
                if rows := _rows(older, one):
                    connection.executemany(_PAGES[one.table][1], rows)
                    missing.remove(one)
            told = True
    if missing and earlier.is_published and not told:
        first = min(missing, key=lambda one: (one.date, one.meeting))
        raise PagesWouldVanish(
            f"the texts of {len(missing)} documents are gone (the first: {first.meeting} {first.date}), meetings.db"
            " too, and no whole copy of what was published lies here: put back any of these from a backup"
        )


class _SchemaMismatch(Exception):
    """Not a meetings.db as this version of clerk makes it."""


def _rows(connection: sqlite3.Connection, one: CarriedOver) -> list[tuple[object, ...]]:
    try:
        return connection.execute(_PAGES[one.table][0], [one.meeting, one.date]).fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # no such table, no such column
            raise _SchemaMismatch from error
        raise
