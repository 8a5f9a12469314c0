"""Processed documents for tests: rows, texts and manifests, as the fetch and OCR stages leave them."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import psycopg

from clerk.archive.selection import Candidate
from clerk.documents import manifest
from clerk.documents.storage import Document, SiteStorage, local_copy, write
from clerk.object_storage.path import StoragePath

Connection = psycopg.Connection[Any]
DAY = date(2024, 3, 5)


def write_texts(storage: SiteStorage, document: Document, texts: list[str | None]) -> None:
    """Write page texts and the manifest. None is a page that failed."""
    pages = []
    for number, text in enumerate(texts, 1):
        if text is None:
            pages.append(manifest.Page(number, manifest.FAILED, 0, None, 1, 0, None, "OcrError: failed"))
            continue
        write(storage.page_text(document, number), text)
        digest = manifest.digest(text.encode())
        pages.append(manifest.Page(number, manifest.TEXT_LAYER, len(text), None, 1, 0, digest))
    made = manifest.Manifest(document.sha256 or "0" * 64, len(pages), "eng", tuple(pages))
    manifest.save(storage.manifest(document), made)


class SiteDocuments:
    """Documents of a site, without Postgres."""

    def __init__(self, root: StoragePath, subdomain: str = "springfield") -> None:
        self.storage: SiteStorage[Any] = SiteStorage(root, subdomain)
        self.candidates: dict[int, Candidate] = {}

    def add(
        self,
        *texts: str | None,
        kind: str = "minutes",
        meeting: str = "City Council",
        day: date = DAY,
        occurrence: int = 1,
        revision: int = 1,
        lineage_id: int | None = None,
        is_processed: bool = True,
        number: int | None = None,
    ) -> Document:
        number = number or len(self.candidates) + 1
        document = Document(number, self.storage.subdomain, kind, meeting, day, occurrence, revision)
        if texts:
            write_texts(self.storage, document, list(texts))
        self.candidates[number] = Candidate(document, lineage_id or number, is_processed)
        return document

    def remove(self, document: Document) -> None:
        del self.candidates[document.id]


def rows(database: StoragePath, query: str, *arguments: object) -> list[tuple[Any, ...]]:
    with local_copy(database) as file, closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(query, arguments).fetchall()


@contextmanager
def edited(database: StoragePath) -> Iterator[sqlite3.Connection]:
    """Change a database behind clerk's back: an object is downloaded and uploaded again."""
    if isinstance(database, Path):
        with closing(sqlite3.connect(database)) as connection:
            yield connection
            connection.commit()
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        copy.write_bytes(database.read_bytes())
        with edited(copy) as connection:
            yield connection
        database.upload(copy)


def is_intact(database: StoragePath) -> bool:
    """SQLite's own integrity checks, not clerk's."""
    with tempfile.TemporaryDirectory() as folder, local_copy(database) as file:
        copy = shutil.copyfile(file, Path(folder) / "copy.db")
        return _is_intact(copy)


def _is_intact(database: Path) -> bool:
    with closing(sqlite3.connect(database)) as connection:
        for table in ("minutes_fts", "agendas_fts", "other_documents_fts"):
            connection.execute(f"insert into {table} ({table}, rank) values ('integrity-check', 1)")
        return connection.execute("pragma integrity_check").fetchall() == [("ok",)]


def add_site(connection: Connection, subdomain: str = "springfield", extra: str | None = None) -> None:
    connection.execute(
        "insert into sites (subdomain, name, scraper, extra) values (%s, initcap(%s), 'none', %s)",
        [subdomain, subdomain, extra],
    )


def add_document(
    connection: Connection,
    storage: SiteStorage,
    *texts: str | None,
    kind: str = "minutes",
    meeting: str = "City Council",
    day: date = DAY,
    status: str = "processed",
) -> Document:
    """A document with its ledger row; by default it is processed."""
    row = connection.execute(
        "insert into content_items (subdomain, kind, meeting, date) values (%s, %s, %s, %s) returning id",
        [storage.subdomain, kind, meeting, day],
    ).fetchone()
    assert row is not None
    connection.execute(
        "insert into content_item_pipeline_state (content_item_id, pipeline, status, processed_at)"
        " values (%s, 'ocr', %s, now())",
        [row[0], status],
    )
    document = Document(row[0], storage.subdomain, kind, meeting, day)
    if texts:
        write_texts(storage, document, list(texts))
    return document
