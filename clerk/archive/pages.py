"""The page rows of meetings.db, from the text files of the selected documents."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clerk.archive.content_hash import OTHER_DOCUMENTS, has_table
from clerk.archive.selection import SelectedDocument
from clerk.documents import manifest
from clerk.documents.kinds import KINDS
from clerk.documents.storage import SiteStorage
from clerk.extraction import cache

logger = logging.getLogger(__name__)

TABLES = {kind: {"minutes": "minutes", "agenda": "agendas"}.get(kind, OTHER_DOCUMENTS) for kind in KINDS}
"""Document kind → table."""
PAGE_TABLES = tuple(dict.fromkeys(TABLES.values()))
_ID_LENGTH = 12
_PREFETCHED_DOCUMENTS = 64


@dataclass(frozen=True)
class Page:
    kind: str
    meeting: str
    date: str
    page: int
    text: str
    page_image: str | None
    """None if no image of the page is kept."""
    entities_json: str | None = None
    votes_json: str | None = None

    @property
    def table(self) -> str:
        return TABLES[self.kind]

    @property
    def digest(self) -> str:
        fields = {"kind": self.kind, "meeting": self.meeting, "date": self.date, "page": self.page, "text": self.text}
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class CarriedOver:
    """A document whose texts cannot be used now: its existing rows stay."""

    kind: str
    meeting: str
    date: str

    @property
    def table(self) -> str:
        return TABLES[self.kind]


def existing_tables(connection: sqlite3.Connection, schema: str = "main") -> list[str]:
    """The tables of pages that an archive has: those of older versions have no other_documents."""
    return [
        table for table in PAGE_TABLES if table != OTHER_DOCUMENTS or has_table(connection, OTHER_DOCUMENTS, schema)
    ]


def kind_of_row(table: str, alias: str) -> str:
    """SQL expression: the kind of a row of the table that a query calls `alias`."""
    kinds = [kind for kind in TABLES if TABLES[kind] == table]
    return f"'{kinds[0]}'" if len(kinds) == 1 else f"{alias}.kind"


def read_pages(storage: SiteStorage, selected: Iterable[SelectedDocument]) -> Iterator[Page | CarriedOver]:
    """The pages of all documents. Only one document is in memory at a time."""
    for selection in _with_files_cached(storage, selected):
        document = selection.document
        carried_over = CarriedOver(document.kind, selection.meeting, document.date.isoformat())
        if selection.damaged:
            yield carried_over
            continue
        try:
            texts = manifest.page_texts(storage, document)
        except manifest.ManifestUnreadable as error:
            logger.warning("document %s keeps its rows in the archive: %s", document.id, error)
            yield carried_over
            continue
        findings = cache.findings_for(storage.extracted(document), texts)
        images = storage.kept_images(document)
        for number, text in texts:
            finding = findings.get(number)
            yield Page(
                document.kind,
                selection.meeting,
                document.date.isoformat(),
                number,
                text,
                storage.page_image_url(document, number) if number in images else None,
                finding.entities_json if finding else None,
                finding.votes_json if finding else None,
            )


def _with_files_cached(storage: SiteStorage, selected: Iterable[SelectedDocument]) -> Iterator[SelectedDocument]:
    """The same documents. Their files are in the local cache, if the storage is a bucket."""
    remaining = iter(selected)
    while batch := list(itertools.islice(remaining, _PREFETCHED_DOCUMENTS)):
        storage.prefetch_texts(selection.document for selection in batch if not selection.damaged)
        yield from batch


def with_ids(items: Iterable[Page | CarriedOver], length: int = _ID_LENGTH) -> Iterator[tuple[str, Page] | CarriedOver]:
    """Add an id to each page: the first digits of its digest.

    If another page of the table already has that id (expected in one site of ten thousand), the id is taken from the
    next position of the digest."""
    taken: set[tuple[str, str]] = set()
    for page in items:
        if isinstance(page, CarriedOver):
            yield page
            continue
        digest = page.digest
        candidates = (digest[start : start + length] for start in range(len(digest) - length + 1))
        key = next(candidate for candidate in candidates if (page.table, candidate) not in taken)
        taken.add((page.table, key))
        yield key, page
