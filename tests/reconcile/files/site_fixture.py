"""A site whose documents went through all stages, and helpers to reconcile it."""

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
from clerk.documents.storage import Document, relative_name
from clerk.pipeline import engine
from clerk.reconcile.apply import Result, reconcile
from clerk.reconcile.file_checks import StorageScan
from clerk.reconcile.plan import make_plan
from tests.ocr import pdfs
from tests.publish.helpers import Town


@dataclass
class StoredSite(Town):
    source: Path = Path()

    def add_to_source(self, name: str, content: bytes) -> None:
        """Add or replace a document at the source; `name` as in `Town Council/2024-01-02.pdf`."""
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def set_source(self, source: Path) -> None:
        self.source = source
        extra = json.dumps({"path": str(source)})
        self.connection.execute("update sites set scraper = 'directory', extra = %s", [extra])

    def update(self) -> str:
        """Run all phases; return the outcome."""
        return self.run(phase=1)

    def document(self, day: str, revision: int = 1) -> Document:
        (document,) = [
            document
            for document in repository.list_documents(self.connection, "springfield")
            if document.date.isoformat() == day and document.revision == revision
        ]
        return document

    def scan(self, full: bool = False) -> StorageScan:
        return StorageScan(config.load(), full)

    def plan(self, full: bool = False) -> list[str]:
        """Kinds of the planned repairs."""
        return [repair.kind for repair in make_plan(self.connection, self.scan(full), None, timedelta(0))]

    def reconcile(self, full: bool = False) -> Result:
        return reconcile(self.connection, self.scan(full), None, timedelta(0))

    def repair(self, full: bool = False) -> list[str]:
        """Reconcile and run workers, then check that nothing is left to repair. Returns the kinds of the repairs."""
        result = self.reconcile(full)
        assert result.failed == []
        self.work()
        assert self.plan(full) == []
        assert self.problems() == []
        return [repair.kind for repair in result.done]

    def problems(self) -> list[Check]:
        return [check for check in verify_invariants(self.connection) if not check.ok]

    def statuses(self) -> list[tuple[str, str | None, str]]:
        """Date, error code and OCR status of each document in its newest revision."""
        return self.connection.execute(
            """
            select i.date::text, l.error_code, coalesce(l.status, 'unknown')
            from content_items i
            left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
            where i.subdomain = 'springfield' and i.kind <> 'archive' and i.superseded_at is null order by 1, i.id
            """
        ).fetchall()

    @property
    def all_processed(self) -> bool:
        statuses = self.statuses()
        return bool(statuses) and all(status == "processed" for _, _, status in statuses)

    def texts(self) -> dict[str, int]:
        """Every page text with its modification time."""
        return {
            relative_name(path, self.storage.root): path.stat().st_mtime_ns
            for path in self.storage.folder.rglob("*.txt")
        }

    def assert_not_rewritten(self, before: dict[str, int], except_in: Iterable[str] = ()) -> None:
        """No page text of `before` was written again, except in the folders `except_in`."""
        now = self.texts()
        rewritten = {name for name, mtime in before.items() if now.get(name) != mtime}
        assert {name for name in rewritten if not any(folder in name for folder in except_in)} == set()

    def manifest(self, document: Document) -> manifest.Manifest:
        loaded = manifest.load(self.storage.manifest(document))
        assert loaded is not None
        return loaded

    def pages_published(self) -> int:
        current = self.published.current
        assert current is not None
        return current.pages


def process_documents(site: StoredSite) -> None:
    """Fetch, process and publish three documents with four pages in all."""
    site.add_to_source("Town Council/2024-01-02.pdf", pdfs.digital(2))
    site.add_to_source("Town Council/2024-02-06.pdf", pdfs.digital(1, ("The bridge", *pdfs.MINUTES)))
    site.add_to_source("Town Council agenda/2024-03-05.pdf", pdfs.numbered(1))
    assert site.update() == "succeeded"


def start_run(connection: psycopg.Connection[Any], phase: int = 1) -> int:
    return engine.start_run(connection, "springfield", first_phase=phase)
