from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest

from clerk.publish.versions import SiteVersions, Version

FORM = files("clerk.archive").joinpath("meetings.sql").read_text()


@dataclass(frozen=True)
class World:
    """A storage, and what is published of it."""

    storage: Path
    published: Path

    def publish(self, subdomain: str, *texts: str, kind: str = "minutes", meeting: str = "City Council") -> Version:
        """A version with a page per text, each with the name of an image that may or may not be there."""
        draft = self.storage / subdomain / "draft.db"
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        table, prefix = ("agendas", "/_agendas") if kind == "agenda" else ("minutes", "")
        with closing(sqlite3.connect(draft)) as connection, connection:
            connection.executescript(FORM)
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

    def picture(self, subdomain: str, path: str, content: bytes = b"\x89PNG of a page") -> Path:
        picture = self.storage / subdomain / path
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(content)
        return picture


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "storage", tmp_path / "published")
