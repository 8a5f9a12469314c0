"""meetings.db of one site, from its page texts and what was extracted from them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from clerk.archive.atomic_build import BuildResult, Finish, build, schema_of
from clerk.archive.carry_over import NOTHING, PublishedCopies, carry_over
from clerk.archive.pages import CarriedOver, Page, pages, with_ids
from clerk.archive.selection import SelectedDocument
from clerk.documents.storage import SiteStorage
from clerk.errors import AllTextsMissing

_FIND = "select meeting, date, page, text, page_image, entities_json, votes_json from PAGES where id = ?"
_INSERT = (
    "insert into PAGES (id, meeting, date, page, text, page_image, entities_json, votes_json)"
    " values (?, ?, ?, ?, ?, ?, ?, ?)"
)
_EXTRACTED = "update PAGES set entities_json = ?, votes_json = ? where id = ?"
_DELETE = "delete from PAGES where id = ?"
_ALL = "select id, meeting, date from PAGES"


def compile_site(
    storage: SiteStorage,
    shown: Iterable[SelectedDocument],
    finish: Finish | None = None,
    before_rename: Callable[[], None] | None = None,
    earlier: PublishedCopies = NOTHING,
) -> BuildResult:
    """Same texts and findings on disk, same content, whatever was there before.

    The exception: a document whose texts are damaged keeps the rows it has, in meetings.db or in what was published
    before, since half of it must not replace it.
    """
    shown = list(shown)
    if shown and all(one.damaged for one in shown):
        raise AllTextsMissing(f"none of {len(shown)} documents that were read has its texts under {storage.folder}")

    def fill(connection: sqlite3.Connection) -> None:
        kept = apply(connection, with_ids(pages(storage, shown)))
        carry_over(connection, kept, storage.database, earlier)

    return build(storage.database, schema_of("meetings.sql"), fill, finish, before_rename)


def apply(connection: sqlite3.Connection, wanted: Iterable[tuple[str, Page] | CarriedOver]) -> set[CarriedOver]:
    """Make the tables hold just these pages; rows that are right already are not touched. Returns the documents of
    which they hold what they held."""
    seen: dict[str, set[str]] = {"minutes": set(), "agendas": set()}
    kept: set[CarriedOver] = set()
    for one in wanted:
        if isinstance(one, CarriedOver):
            kept.add(one)
            continue
        key, page = one
        seen[page.table].add(key)
        text = (page.meeting, page.date, page.page, page.text, page.page_image)
        extracted = (page.entities_json, page.votes_json)
        present = connection.execute(_in(page.table, _FIND), [key]).fetchone()
        if present is None or present[:5] != text:
            if present is not None:
                connection.execute(_in(page.table, _DELETE), [key])
            connection.execute(_in(page.table, _INSERT), [key, *text, *extracted])
        elif present[5:] != extracted:
            connection.execute(_in(page.table, _EXTRACTED), [*extracted, key])
    for table, keys in seen.items():
        gone = [
            [key]
            for key, meeting, date in connection.execute(_in(table, _ALL))
            if key not in keys and CarriedOver(table, meeting, date) not in kept
        ]
        connection.executemany(_in(table, _DELETE), gone)
    return kept


def _in(table: str, query: str) -> str:
    return query.replace("PAGES", table)
