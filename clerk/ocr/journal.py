"""Checkpoint file of a document that is being processed: one line of JSON per finished page.

A job that was killed after page 190 continues with page 191. The first line names the PDF, the languages and the run
that forces OCR; the journal is ignored for others. A page is processed again if its line is incomplete or its text is
missing. The journal is deleted when the manifest is written.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from clerk.documents.manifest import Manifest, Page, digest
from clerk.documents.storage import Document, SiteStorage, fsync, write
from clerk.object_storage.path import ObjectPath

_NAME = ".reading.jsonl"


class Journal:
    def __init__(
        self,
        storage: SiteStorage,
        document: Document,
        pdf_sha256: str,
        languages: str,
        forced_by_run: int | None = None,
    ) -> None:
        self.storage = storage
        self.document = document
        self.path = storage.texts(document) / _NAME
        self.pdf_sha256 = pdf_sha256
        self.languages = languages
        self.forced_by_run = forced_by_run
        self._content = ""
        self.head = {"pdf_sha256": pdf_sha256, "languages": languages}
        if forced_by_run is not None:
            self.head["forced_by_run"] = str(forced_by_run)

    def pages(self, manifest: Manifest | None) -> dict[int, Page]:
        """The finished pages, from the journal and from a manifest of the same PDF and languages."""
        known = {page.page: page for page in self._lines()}
        if manifest and self.accepts(manifest) and self.languages == manifest.languages:
            known = {page.page: page for page in manifest.pages} | known
        return {number: page for number, page in known.items() if page.has_text and self._has_text(page)}

    def accepts(self, manifest: Manifest) -> bool:
        """Whether the manifest is of the same PDF and, if OCR is forced, of the run that forces it."""
        return manifest.pdf_sha256 == self.pdf_sha256 and self.forced_by_run in (None, manifest.forced_by_run)

    def _lines(self) -> list[Page]:
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        except FileNotFoundError:
            return []
        pages = []
        with contextlib.suppress(ValueError, TypeError):
            if json.loads(lines[0]) == self.head:
                pages += [Page(**json.loads(line)) for line in lines[1:-1]]
        return pages

    def _has_text(self, page: Page) -> bool:
        try:
            return digest(self.storage.page_text(self.document, page.page).read_bytes()) == page.sha256
        except OSError:
            return False

    def begin(self, pages: dict[int, Page]) -> None:
        """Rewrite the journal with the finished pages, so that no line follows an incomplete one."""
        lines = [json.dumps(self.head), *(json.dumps(vars(page)) for page in pages.values())]
        self._content = "".join(f"{line}\n" for line in lines)
        if isinstance(self.path, ObjectPath):
            self.path.overwrite(self._content.encode())
        else:
            write(self.path, self._content)

    def add(self, pages: list[Page]) -> None:
        lines = "".join(f"{json.dumps(vars(page))}\n" for page in pages)
        if isinstance(self.path, ObjectPath):  # which nothing can be appended to
            self._content += lines
            self.path.overwrite(self._content.encode())
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    def end(self) -> None:
        self.path.unlink(missing_ok=True)
        if isinstance(self.path, Path):
            fsync(self.path.parent)
