"""Pages that are read, while their document is not: a line of JSON per page, added as the page's text is in place.

What lets a job that was killed at page 190 go on at 191. Its first line says for which PDF and which languages it
holds; for others it counts for nothing. A torn last line, or a text that is not there, is a page to be read again.
Removed when the manifest is written.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict

from clerk.documents.manifest import Manifest, Page, digest
from clerk.documents.storage import Document, SiteStorage, fsync_dir

_NAME = ".reading.jsonl"


class Journal:
    def __init__(self, storage: SiteStorage, document: Document, pdf_sha256: str, languages: str) -> None:
        self.storage = storage
        self.document = document
        self.path = storage.texts(document) / _NAME
        self.head = {"pdf_sha256": pdf_sha256, "languages": languages}

    def pages(self, manifest: Manifest | None) -> dict[int, Page]:
        """Pages that need not be read again, from here and from a manifest of the same PDF and languages."""
        known = {page.page: page for page in self._lines()}
        if manifest and self.head == {"pdf_sha256": manifest.pdf_sha256, "languages": manifest.languages}:
            known = {page.page: page for page in manifest.pages} | known
        return {number: page for number, page in known.items() if page.has_text and self._text_is_there(page)}

    def _lines(self) -> list[Page]:
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        except FileNotFoundError:
            return []
        found = []
        with contextlib.suppress(ValueError, TypeError):
            if json.loads(lines[0]) == self.head:
                found += [Page(**json.loads(line)) for line in lines[1:-1]]
        return found

    def _text_is_there(self, page: Page) -> bool:
        try:
            return digest(self.storage.page_text(self.document, page.page).read_bytes()) == page.sha256
        except OSError:
            return False

    def begin(self, pages: dict[int, Page]) -> None:
        """Written anew with what holds, so that nothing is ever added behind a torn line."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(self.head), *(json.dumps(asdict(page)) for page in pages.values())]
        temporary = self.path.with_suffix(".part")
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        temporary.replace(self.path)

    def add(self, pages: list[Page]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(asdict(page))}\n" for page in pages)
            file.flush()
            os.fsync(file.fileno())

    def end(self) -> None:
        self.path.unlink(missing_ok=True)
        fsync_dir(self.path.parent)
