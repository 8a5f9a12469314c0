"""Published archives for tests, made without running the pipeline."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from clerk.archive.atomic_build import load_schema
from clerk.archive.compile import archive_schema
from clerk.archive.pages import TABLES
from clerk.archive.query import ArchiveForm
from clerk.archive.search_tables import update_terms
from clerk.publish.versions import SiteVersions

_DEFAULTS = {"meeting": "City Council", "date": "2024-03-05", "page": 1, "page_image": None}


def publish(root: Path, subdomain: str, *pages: dict[str, object], form: ArchiveForm = ArchiveForm.TERMS) -> Path:
    """Publish a database with these page rows: `text`, and optionally meeting, date, page, kind, page_image, and
    source_url and added_at of the document."""
    versions = SiteVersions(root, subdomain)
    version = versions.versions_folder / "20240305T000000000000Z-0"
    version.mkdir(parents=True)
    database = version / "meetings.db"
    write_archive(database, *pages, form=form)
    (version / "publication.json").write_text(
        f'{{"content_hash": "0", "pages": {len(pages)}, "published_at": "2024-03-05T00:00:00+00:00"}}'
    )
    versions.link.symlink_to(f"versions/{version.name}", target_is_directory=True)
    return database


def write_archive(database: Path, *pages: dict[str, object], form: ArchiveForm = ArchiveForm.TERMS) -> None:
    """A meetings.db of the current schema, or of the one without search terms."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(archive_schema() if form is ArchiveForm.TERMS else load_schema("meetings.sql"))
        for number, page in enumerate(pages, 1):
            row = _DEFAULTS | page
            table = TABLES[str(row.get("kind", "minutes"))]
            columns = ["meeting", "date", "page", "text", "page_image"] + ["kind"] * (table == "other_documents")
            connection.execute(
                f"insert into {table} (id, {', '.join(columns)}) values (?{', ?' * len(columns)})",
                [str(number), *(row[name] for name in columns)],
            )
            if form is ArchiveForm.TERMS:
                connection.execute(
                    "insert or replace into document_sources values (?, ?, ?, ?, ?)",
                    [
                        row.get("kind", "minutes"),
                        *(row[name] for name in ("meeting", "date")),
                        *(row.get(name) for name in ("source_url", "added_at")),
                    ],
                )
        if form is ArchiveForm.TERMS:
            update_terms(connection)


def remove_other_documents(database: Path) -> None:
    """Leave the archive as a version without the table `other_documents` made it."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for table in ("other_documents_search", "other_documents_fts", "other_documents"):
            connection.execute(f"drop table if exists {table}")
