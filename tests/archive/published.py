"""Published archives for tests, made without running the pipeline."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from clerk.archive.atomic_build import load_schema
from clerk.publish.versions import SiteVersions

SCHEMA = load_schema("meetings.sql")


def publish(root: Path, subdomain: str, *pages: dict[str, object]) -> Path:
    """Publish a database with these page rows: `text`, and optionally meeting, date, page, kind and page_image."""
    versions = SiteVersions(root, subdomain)
    version = versions.versions_folder / "20240305T000000000000Z-0"
    version.mkdir(parents=True)
    database = version / "meetings.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(SCHEMA)
        for number, page in enumerate(pages, 1):
            row = {"meeting": "City Council", "date": "2024-03-05", "page": 1, "page_image": None} | page
            table = "agendas" if row.get("kind") == "agenda" else "minutes"
            connection.execute(
                f"insert into {table} (id, meeting, date, page, text, page_image) values (?, ?, ?, ?, ?, ?)",
                [str(number), *(row[name] for name in ("meeting", "date", "page", "text", "page_image"))],
            )
    versions.link.symlink_to(f"versions/{version.name}", target_is_directory=True)
    return database
