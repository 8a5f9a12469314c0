"""The files of a document in storage: PDF, page texts and page images. No path leaves the site's folder."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from clerk.documents import manifest, word_boxes
from clerk.documents.media_types import PDF
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import Document, SiteStorage
from clerk.documents.word_boxes import WordBoxes, WordBoxesInvalid
from clerk.object_storage.path import ObjectPath, StoragePath
from clerk.web.sanitize import sanitize_text

logger = logging.getLogger(__name__)

MAX_TEXT_BYTES = 100_000
"""Of one page's text: many times what fits on paper."""
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class PageView:
    """One page of a document, as far as its files are in storage."""

    number: int
    text: str | None
    truncated: bool
    has_image: bool
    """Whether the image was stored."""
    ocr: manifest.Page | None
    """How the text was obtained, if known."""


@dataclass(frozen=True)
class DocumentFiles:
    storage: SiteStorage
    document: Document
    manifest: manifest.Manifest | None
    manifest_error: str | None
    """Why the manifest could not be read."""

    @property
    def exist(self) -> bool:
        return self._resolve(self.storage.texts(self.document)) is not None or self.original is not None

    @property
    def original(self) -> StoragePath | None:
        """The file as it was fetched: untrusted content."""
        return self._file(self.storage.pdf(self.document))

    @property
    def pdf(self) -> StoragePath | None:
        """The file as it was fetched, if it is a PDF."""
        return self.original if self.document.media_type == PDF else None

    @property
    def has_ocr_text(self) -> bool:
        """Whether OCR recognized text that the PDF itself does not have."""
        pages = self.manifest.pages if self.manifest else []
        return self.pdf is not None and any(page.method == manifest.OCR for page in pages)

    def page(self, number: int) -> PageView:
        text = self._text(number)
        ocr = next((page for page in self.manifest.pages if page.page == number), None) if self.manifest else None
        return PageView(
            number,
            None if text is None else sanitize_text(text[:MAX_TEXT_BYTES].decode(errors="replace")),
            text is not None and len(text) > MAX_TEXT_BYTES,
            self._file(self.storage.page_image(self.document, number)) is not None,
            ocr,
        )

    def stored_words(self, number: int) -> WordBoxes | None:
        """The stored word boxes of a page with OCR, with boxes on the image that is shown; None if there are none."""
        path = self._file(self.storage.word_boxes(self.document, number))
        try:
            boxes = word_boxes.load(path) if path else None
        except WordBoxesInvalid:
            logger.warning("document %s: the word boxes of page %s are damaged", self.document.id, number)
            return None
        if boxes is None or self._file(self.storage.page_image(self.document, number)) is not None:
            return boxes
        # The image is rendered from the PDF now.
        return WordBoxes([[word_boxes.page_word(boxes, word) for word in line] for line in boxes.lines])

    def has_text_layer(self, number: int) -> bool:
        """Whether the text of the page is that of the PDF, as far as known."""
        ocr = self.page(number).ocr
        return self.pdf is not None and (ocr is None or ocr.method == manifest.TEXT_LAYER)

    def image(self, number: int) -> bytes | None:
        """The stored image; None if there is none or it is not a PNG."""
        path = self._file(self.storage.page_image(self.document, number))
        content = path.read_bytes() if path else b""
        return content if content.startswith(_PNG_SIGNATURE) else None

    def _text(self, number: int) -> bytes | None:
        path = self._file(self.storage.page_text(self.document, number))
        if path is None:
            return None
        with path.open("rb") as file:
            return file.read(MAX_TEXT_BYTES + 1)

    def _file(self, path: StoragePath) -> StoragePath | None:
        resolved = self._resolve(path)
        return resolved if resolved is not None and resolved.is_file() else None

    def _resolve(self, path: StoragePath) -> StoragePath | None:
        """None if the path does not exist, or if a symbolic link leads out of the site's folder."""
        if isinstance(path, ObjectPath):
            return path if path.exists() else None
        resolved = path.resolve()
        folder = cast("Path", self.storage.folder)
        return resolved if resolved.exists() and resolved.is_relative_to(folder.resolve()) else None


def document_files(storage_dir: StoragePath | None, document: Document) -> DocumentFiles | None:
    """None if this machine has no storage, or the subdomain cannot be a folder in it."""
    if storage_dir is None or not is_subdomain(document.subdomain):
        return None
    storage = SiteStorage(storage_dir, document.subdomain).snapshot(document)
    try:
        return DocumentFiles(storage, document, manifest.load(storage.manifest(document)), None)
    except manifest.ManifestUnreadable as error:
        return DocumentFiles(storage, document, None, str(error))
