"""Builds meetings.db of one site from its page texts and extraction results."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

from clerk.archive import vote_tables
from clerk.archive.atomic_build import BuildResult, Finish, build, load_schema
from clerk.archive.carry_over import NOT_PUBLISHED, PublishedCopies, carry_over
from clerk.archive.content_hash import OTHER_DOCUMENTS
from clerk.archive.pages import CarriedOver, Page, read_pages, with_ids
from clerk.archive.search_tables import update_sources, update_terms, update_terms_of_file
from clerk.archive.selection import SelectedDocument
from clerk.documents.storage import SiteStorage
from clerk.errors import AllTextsMissing

_FIND = "select meeting, date, page, text, page_image, entities_json, votes_json from PAGES where id = ?"
_INSERT = (
    "insert into PAGES (id, meeting, date, page, text, page_image, entities_json, votes_json)"
    " values (?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_OTHER = (
    "insert into other_documents (id, meeting, date, page, text, page_image, entities_json, votes_json, kind)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE_EXTRACTION = "update PAGES set entities_json = ?, votes_json = ? where id = ?"
_DELETE = "delete from PAGES where id = ?"
_LIST = {
    "minutes": "select id, 'minutes', meeting, date from minutes",
    "agendas": "select id, 'agenda', meeting, date from agendas",
    OTHER_DOCUMENTS: "select id, kind, meeting, date from other_documents",
}


def compile_site(
    storage: SiteStorage,
    selected: Iterable[SelectedDocument],
    finish: Finish | None = None,
    before_rename: Callable[[], None] | None = None,
    published: PublishedCopies = NOT_PUBLISHED,
) -> BuildResult:
    """Build meetings.db. The same files always give the same content, whatever the database held before.

    Exception: a document whose texts are damaged keeps its rows from meetings.db or from a published version, so that
    an incomplete text does not replace a complete one.
    """
    selected = list(selected)
    if selected and all(document.damaged for document in selected):
        raise AllTextsMissing(f"the texts of all {len(selected)} processed documents are missing in {storage.folder}")

    def fill(connection: sqlite3.Connection) -> None:
        documents = apply(connection, with_ids(read_pages(storage, selected)))
        carry_over(connection, documents, storage.database, published)
        vote_tables.update(connection)
        update_sources(connection, selected)
        update_terms(connection)

    def finish_and_index(draft: Path, is_new: bool) -> None:
        if finish is not None:
            finish(draft, is_new)
            update_terms_of_file(draft)

    return build(storage.database, archive_schema(), fill, finish_and_index, before_rename)


def archive_schema() -> str:
    return load_schema("meetings.sql") + load_schema("search_tables.sql")


def apply(connection: sqlite3.Connection, wanted: Iterable[tuple[str, Page] | CarriedOver]) -> set[CarriedOver]:
    """Make the tables hold exactly these pages, writing only differences. Returns the documents whose rows were kept
    without comparing them."""
    keys_by_table: dict[str, set[str]] = {table: set() for table in _LIST}
    carried_over: set[CarriedOver] = set()
    for item in wanted:
        if isinstance(item, CarriedOver):
            carried_over.add(item)
            continue
        key, page = item
        keys_by_table[page.table].add(key)
        text = (page.meeting, page.date, page.page, page.text, page.page_image)
        extracted = (page.entities_json, page.votes_json)
        existing = connection.execute(_for_table(page.table, _FIND), [key]).fetchone()
        if existing is None or existing[:5] != text:
            if existing is not None:
                connection.execute(_for_table(page.table, _DELETE), [key])
            if page.table == OTHER_DOCUMENTS:
                connection.execute(_INSERT_OTHER, [key, *text, *extracted, page.kind])
            else:
                connection.execute(_for_table(page.table, _INSERT), [key, *text, *extracted])
        elif existing[5:] != extracted:
            connection.execute(_for_table(page.table, _UPDATE_EXTRACTION), [*extracted, key])
    for table, keys in keys_by_table.items():
        obsolete = [
            [key]
            for key, kind, meeting, date in connection.execute(_LIST[table])
            if key not in keys and CarriedOver(kind, meeting, date) not in carried_over
        ]
        connection.executemany(_for_table(table, _DELETE), obsolete)
    return carried_over


def _for_table(table: str, query: str) -> str:
    return query.replace("PAGES", table)
