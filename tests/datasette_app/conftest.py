from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from clerk.archive.atomic_build import load_schema
from clerk.publish.versions import SiteVersions, Version

SCHEMA = load_schema("meetings.sql")


@dataclass(frozen=True)
class Archives:
    """A storage folder and its published versions."""

    storage: Path
    published: Path

    def publish(self, subdomain: str, *texts: str, kind: str = "minutes", meeting: str = "City Council") -> Version:
        """Publish a version with a page per text. Each row names an image, which may not exist."""
        draft = self.storage / subdomain / "draft.db"
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        table, prefix = ("agendas", "/_agendas") if kind == "agenda" else ("minutes", "")
        with closing(sqlite3.connect(draft)) as connection, connection:
            connection.executescript(SCHEMA)
            for number, text in enumerate(texts, 1):
                row = [
                    str(number),
                    meeting,
                    "2024-03-05",
                    number,
                    text,
                    f"{prefix}/CityCouncil/2024-03-05/{number}.png",
                ]
                connection.execute(
                    f"insert into {table} (id, meeting, date, page, text, page_image) values (?, ?, ?, ?, ?, ?)", row
                )
        return SiteVersions(self.published, subdomain).publish(draft, keep=2)

    def add_image(self, subdomain: str, path: str, content: bytes = b"\x89PNG of a page") -> Path:
        image = self.storage / subdomain / path
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(content)
        return image


@pytest.fixture
def archives(tmp_path: Path) -> Archives:
    return Archives(tmp_path / "storage", tmp_path / "published")
