"""The disk and tables of legacy clerk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.ocr.pdfs import digital

Connection = psycopg.Connection[Any]


@dataclass(frozen=True)
class LegacyDisk:
    """STORAGE_DIR. A document is identified by site, meeting and date (or another file name)."""

    root: Path

    def path(self, site: str, kind: str, meeting: str, name: str, agenda: bool = False) -> Path:
        path = self.root / site / ("_agendas" if agenda else "") / kind / meeting / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def text(self, site: str, meeting: str, day: str, *pages: str | bytes, padded: bool = False, **more: Any) -> None:
        folder = self.path(site, "txt", meeting, day, **more)
        folder.mkdir(exist_ok=True)
        for number, page in enumerate(pages, 1):
            name = f"{number:04}.txt" if padded else f"{number}.txt"
            (folder / name).write_bytes(page if isinstance(page, bytes) else page.encode())

    def whole_text(self, site: str, meeting: str, day: str, text: str, **more: Any) -> None:
        self.path(site, "txt", meeting, f"{day}.txt", **more).write_text(text, encoding="utf-8")

    def pdf(self, site: str, meeting: str, day: str, pages: int = 1, **more: Any) -> Path:
        path = self.path(site, "pdfs", meeting, f"{day}.pdf", **more)
        path.write_bytes(digital(pages, [f"{meeting} of {site} on {day}", "The motion carried."]))
        return path

    def marker(self, site: str, meeting: str, day: str, **more: Any) -> None:
        self.path(site, "processed", meeting, f"{day}.txt", **more).touch()

    def images(self, site: str, meeting: str, day: str, count: int, **more: Any) -> None:
        folder = self.path(site, "images", meeting, day, **more)
        folder.mkdir()
        for number in range(1, count + 1):
            (folder / f"{number}.png").write_bytes(b"\x89PNG")


@contextlib.contextmanager
def as_unprivileged_user() -> Iterator[None]:
    """Run as another user if the tests run as root, who can read every file."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


PROGRESS = """
create table if not exists site_progress (
    subdomain varchar primary key, current_stage varchar,
    stage_total integer not null default 0, stage_completed integer not null default 0,
    started_at timestamptz, updated_at timestamptz
)
"""


def stuck_site(connection: Connection, site: str, stage: str | None = "ocr", status: str | None = "needs_ocr") -> None:
    """Insert a site that has been stuck since 2024-05-01."""
    connection.execute(
        "insert into sites (subdomain, name, status, last_updated) values (%s, %s, %s, '')", [site, site, status]
    )
    connection.execute(PROGRESS)
    if stage is not None:
        connection.execute(
            "insert into site_progress values (%s, %s, 15, 12, '2024-05-01 10:00+00', '2024-05-01 12:00+00')",
            [site, stage],
        )
