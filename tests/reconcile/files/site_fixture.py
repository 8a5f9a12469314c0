"""A town whose documents went through all stages, and the ways to break and heal it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from clerk import config
from clerk.db.migrations.verify import Check, verify_invariants
from clerk.documents import manifest, repository
from clerk.documents.storage import Document
from clerk.pipeline import engine
from clerk.reconcile.apply import Result, reconcile
from clerk.reconcile.file_checks import StorageScan
from clerk.reconcile.plan import make_plan
from tests.ocr import pdfs
from tests.publish.helpers import Town


@dataclass
class World(Town):
    source: Path = Path()

    def offer(self, name: str, content: bytes) -> None:
        """The source has this document from now on; `name` as in `Town Council/2024-01-02.pdf`."""
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def point_at(self, source: Path) -> None:
        self.source = source
        extra = json.dumps({"path": str(source)})
        self.connection.execute("update sites set scraper = 'directory', extra = %s", [extra])

    def update(self) -> str:
        """A whole run; returns its outcome."""
        return self.run(phase=1)

    def document(self, day: str, revision: int = 1) -> Document:
        (found,) = [
            one
            for one in repository.list_documents(self.connection, "springfield")
            if one.date.isoformat() == day and one.revision == revision
        ]
        return found

    def scan(self, full: bool = False) -> StorageScan:
        return StorageScan(config.load(), full)

    def plan(self, full: bool = False) -> list[str]:
        """Kinds of what would be mended."""
        return [repair.kind for repair in make_plan(self.connection, self.scan(full), None, timedelta(0))]

    def reconcile(self, full: bool = False) -> Result:
        return reconcile(self.connection, self.scan(full), None, timedelta(0))

    def repair(self, full: bool = False) -> list[str]:
        """Reconcile, work, and again: nothing may be left to find. Returns what was mended at first."""
        result = self.reconcile(full)
        assert result.failed == []
        self.work()
        assert self.plan(full) == []
        assert self.problems() == []
        return [repair.kind for repair in result.done]

    def problems(self) -> list[Check]:
        return [check for check in verify_invariants(self.connection) if not check.ok]

    def statuses(self) -> list[tuple[str, str | None, str]]:
        """Day, stem and what became of it in reading, of each document that nobody superseded."""
        return self.connection.execute(
            """
            select i.date::text, l.error_code, coalesce(l.status, 'unknown')
            from content_items i
            left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
            where i.subdomain = 'springfield' and i.kind <> 'archive' and i.superseded_at is null order by 1, i.id
            """
        ).fetchall()

    @property
    def all_read(self) -> bool:
        found = self.statuses()
        return bool(found) and all(status == "processed" for _, _, status in found)

    def texts(self) -> dict[str, int]:
        """Every page text, and when it was written."""
        return {
            path.relative_to(self.storage.root).as_posix(): path.stat().st_mtime_ns
            for path in self.storage.folder.rglob("txt/*/*/*.txt")
        }

    def require_unread(self, before: dict[str, int], but: Iterable[str] = ()) -> None:
        """Not one page of `before` was written again, except those under the folders `but`."""
        now = self.texts()
        again = {name for name, when in before.items() if now.get(name) != when}
        assert {name for name in again if not any(part in name for part in but)} == set()

    def manifest(self, document: Document) -> manifest.Manifest:
        found = manifest.load(self.storage.manifest(document))
        assert found is not None
        return found

    def pages_published(self) -> int:
        current = self.published.current
        assert current is not None
        return current.pages


def fill(world: World) -> None:
    """Three documents, of four pages together, fetched, read, compiled and published."""
    world.offer("Town Council/2024-01-02.pdf", pdfs.digital(2))
    world.offer("Town Council/2024-02-06.pdf", pdfs.digital(1, ("The bridge", *pdfs.MINUTES)))
    world.offer("Town Council agenda/2024-03-05.pdf", pdfs.numbered(1))
    assert world.update() == "succeeded"


def start_run(connection: psycopg.Connection[Any], phase: int = 1) -> int:
    return engine.start_run(connection, "springfield", first_phase=phase)
