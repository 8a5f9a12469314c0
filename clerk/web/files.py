"""What of a document lies on this machine: its PDF, a page's text and image. A path never leaves the site's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clerk.documents import manifest
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import Document, SiteStorage
from clerk.web.sanitize import sanitize_text

SHOWN_AT_MOST = 100_000
"""Bytes of a page's text: many times what fits on paper."""
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class PageView:
    """One page of a document, as far as it is here."""

    number: int
    text: str | None
    is_cut: bool
    has_image: bool
    """One that was kept."""
    read: manifest.Page | None
    """How it was read, if that is known."""


@dataclass(frozen=True)
class DocumentFiles:
    """The files of one document."""

    storage: SiteStorage
    document: Document
    known: manifest.Manifest | None
    damage: str | None
    """Why what is known of its pages cannot be read."""

    @property
    def are_here(self) -> bool:
        return self._real(self.storage.texts(self.document)) is not None or self.pdf is not None

    @property
    def pdf(self) -> Path | None:
        """The document as it was fetched: anything may be in it."""
        return self._file(self.storage.pdf(self.document))

    def leaf(self, number: int) -> PageView:
        text = self._text(number)
        read = next((page for page in self.known.pages if page.page == number), None) if self.known else None
        return PageView(
            number,
            None if text is None else sanitize_text(text[:SHOWN_AT_MOST].decode(errors="replace")),
            text is not None and len(text) > SHOWN_AT_MOST,
            self._file(self.storage.page_image(self.document, number)) is not None,
            read,
        )

    def image(self, number: int) -> bytes | None:
        """None unless one was kept and is a PNG."""
        path = self._file(self.storage.page_image(self.document, number))
        content = path.read_bytes() if path else b""
        return content if content.startswith(_PNG) else None

    def _text(self, number: int) -> bytes | None:
        path = self._file(self.storage.page_text(self.document, number))
        if path is None:
            return None
        with path.open("rb") as file:
            return file.read(SHOWN_AT_MOST + 1)

    def _file(self, path: Path) -> Path | None:
        real = self._real(path)
        return real if real is not None and real.is_file() else None

    def _real(self, path: Path) -> Path | None:
        """None if nothing is there, or if a link leads out of the site's folder."""
        real = path.resolve()
        return real if real.exists() and real.is_relative_to(self.storage.folder.resolve()) else None


def document_files(storage_dir: Path | None, document: Document) -> DocumentFiles | None:
    """None if this machine has no storage, or could have none for such a site."""
    if storage_dir is None or not is_subdomain(document.subdomain):
        return None
    storage = SiteStorage(storage_dir, document.subdomain)
    try:
        return DocumentFiles(storage, document, manifest.load(storage.manifest(document)), None)
    except manifest.ManifestUnreadable as error:
        return DocumentFiles(storage, document, None, str(error))
