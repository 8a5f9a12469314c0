"""What became of each page of a document: a JSON file beside the page texts.

The manifest is the last thing written for a document and the first thing read: a page counts only if the manifest
names it and its text file has the bytes that the manifest says. Its own form is `version`; a reader refuses others.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from clerk.documents.storage import Document, SiteStorage, write

VERSION = 1
TEXT_LAYER, OCR, EMPTY, FAILED = "text-layer", "ocr", "empty", "failed"
LEGACY = "older system"
"""Text that was imported from the legacy clerk. The value is stored in manifests."""
WITH_TEXT = (TEXT_LAYER, OCR, EMPTY, LEGACY)
"""Methods that write a text file; an empty page has an empty file."""


@dataclass(frozen=True)
class Page:
    page: int
    method: str
    characters: int
    confidence: float | None
    """Tesseract's mean word confidence, 0 to 100; None where nothing was recognised."""
    milliseconds: int
    rotation: int
    """Degrees clockwise by which the rendered page was turned before it was read."""
    sha256: str | None
    """Of the page's text file; None for a failed page."""
    error: str | None = None
    """`Class: message`, for a failed page."""

    @property
    def has_text(self) -> bool:
        return self.method in WITH_TEXT


@dataclass(frozen=True)
class Manifest:
    pdf_sha256: str | None
    """None: the older system read it, and its PDF was gone when the texts were taken over."""
    page_count: int
    languages: str
    pages: tuple[Page, ...] = field(default=())
    note: str | None = None
    version: int = VERSION

    @property
    def failed(self) -> tuple[Page, ...]:
        return tuple(page for page in self.pages if page.method == FAILED)

    @property
    def is_legacy(self) -> bool:
        """Its texts are the older system's, all or some."""
        return any(page.method == LEGACY for page in self.pages)

    @property
    def is_complete(self) -> bool:
        """Every page is accounted for, in order, once."""
        return [page.page for page in self.pages] == list(range(1, self.page_count + 1))


class ManifestUnreadable(Exception):
    """The file is not a manifest that this code can read: damaged, or of another version."""


def load(path: Path) -> Manifest | None:
    """None if there is none; ManifestUnreadable if what is there cannot be used."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        found: dict[str, Any] = json.loads(content)
        if found["version"] != VERSION:
            raise ManifestUnreadable(f"{path} is of version {found['version']}, not {VERSION}")
        pages = tuple(Page(**page) for page in found.pop("pages"))
        return Manifest(pages=pages, **found)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ManifestUnreadable(f"{path} is damaged ({error})") from error


def save(path: Path, manifest: Manifest) -> None:
    """Complete under its name, or not at all."""
    write(path, json.dumps(asdict(manifest), ensure_ascii=False, indent=1) + "\n")


def page_texts(storage: SiteStorage, document: Document) -> list[tuple[int, str]]:
    """Number and text of every page that was read, in order; pages that failed are left out.

    Empty if the document was never read. A text file that is missing or is not the one that the manifest speaks of
    raises ManifestUnreadable: half a document must not pass for a whole one.
    """
    manifest = load(storage.manifest(document))
    if manifest is None:
        return []
    return [
        (page.page, _text(storage.page_text(document, page.page), page)) for page in manifest.pages if page.has_text
    ]


def _text(path: Path, page: Page) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ManifestUnreadable(f"{path} is missing, though the manifest has it") from error
    if digest(content) != page.sha256:
        raise ManifestUnreadable(f"{path} is not the text that the manifest speaks of")
    return content.decode()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
