"""Manifest of a document: a JSON file beside the page texts with the OCR result of each page.

It is written after all page texts. A page text is valid only if the manifest lists it and has its hash. Manifests of
another `version` are rejected.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from clerk.documents.storage import Document, SiteStorage, write
from clerk.object_storage.path import StoragePath

VERSION = 1
TEXT_LAYER, OCR, EMPTY, FAILED = "text-layer", "ocr", "empty", "failed"
HTML, DOCX = "html", "docx"
"""Text of a web page and of a Word document."""
LEGACY = "older system"
"""Text that was imported from legacy clerk. The value is stored in manifests."""
WITH_TEXT = (TEXT_LAYER, OCR, EMPTY, HTML, DOCX, LEGACY)
"""Methods that write a text file; an empty page has an empty file."""


@dataclass(frozen=True)
class Page:
    page: int
    method: str
    characters: int
    confidence: float | None
    """Mean word confidence of Tesseract, 0 to 100; None if it recognised no words."""
    milliseconds: int
    rotation: int
    """Degrees clockwise by which the rendered page was rotated before OCR."""
    sha256: str | None
    """Hash of the text file; None for a failed page."""
    error: str | None = None
    """`Code: message` of a failed page."""
    reason: str | None = None
    """Why this method was used. None in manifests that were written before it was recorded."""

    @property
    def has_text(self) -> bool:
        return self.method in WITH_TEXT


@dataclass(frozen=True)
class Manifest:
    pdf_sha256: str | None
    """None if the texts were imported from legacy clerk when the PDF was missing."""
    page_count: int
    languages: str
    pages: tuple[Page, ...] = field(default=())
    note: str | None = None
    version: int = VERSION
    forced_by_run: int | None = None
    """The run in which every page was processed by OCR, whatever its text layer."""

    @property
    def failed(self) -> tuple[Page, ...]:
        return tuple(page for page in self.pages if page.method == FAILED)

    @property
    def is_legacy(self) -> bool:
        """At least one text was imported from legacy clerk."""
        return any(page.method == LEGACY for page in self.pages)

    @property
    def is_complete(self) -> bool:
        """Every page is listed once, in order."""
        return [page.page for page in self.pages] == list(range(1, self.page_count + 1))


class ManifestUnreadable(Exception):
    """A manifest or a text that it lists is missing, damaged or of another version."""


def load(path: StoragePath) -> Manifest | None:
    """Load a manifest; None if the file does not exist. Raises ManifestUnreadable if it is invalid."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        values: dict[str, Any] = json.loads(content)
        if values["version"] != VERSION:
            raise ManifestUnreadable(f"{path} has version {values['version']}, not {VERSION}")
        pages = tuple(Page(**page) for page in values.pop("pages"))
        return Manifest(pages=pages, **values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ManifestUnreadable(f"{path} is damaged ({error})") from error


def save(path: StoragePath, manifest: Manifest) -> None:
    # Not asdict, which copies every value.
    values = {**vars(manifest), "pages": [vars(page) for page in manifest.pages]}
    write(path, json.dumps(values, ensure_ascii=False, indent=1) + "\n")


def page_texts(storage: SiteStorage, document: Document) -> list[tuple[int, str]]:
    """Return number and text of every page, in order, without failed pages; nothing if there is no manifest.

    Raises ManifestUnreadable if a text file is missing or differs from its hash, so that an incomplete document is
    never taken for a complete one.
    """
    manifest = load(storage.manifest(document))
    if manifest is None:
        return []
    return [
        (page.page, _text(storage.page_text(document, page.page), page)) for page in manifest.pages if page.has_text
    ]


def _text(path: StoragePath, page: Page) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ManifestUnreadable(f"{path} is missing but listed in the manifest") from error
    if digest(content) != page.sha256:
        raise ManifestUnreadable(f"{path} differs from the hash in the manifest")
    return content.decode()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
