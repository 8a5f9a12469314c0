"""In what condition a document's files are: texts by their manifest, the PDF by its hash.

Two depths. The quick one trusts a file that has a possible size and is no younger than its manifest, and so reads
little more than the manifest; the full one hashes everything. Gone is what the file system says is not there; any
other trouble with it (a disk that fails, rights) is raised, so that nobody takes it for a loss.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from clerk.documents import manifest
from clerk.documents.manifest import OCR, Manifest, ManifestUnreadable, Page
from clerk.documents.storage import Document, SiteStorage

_BYTES_PER_CHARACTER = 4
"""At most, in UTF-8."""


@dataclass(frozen=True)
class TextsStatus:
    manifest: Manifest | None
    problem: str | None
    """What is wrong with them, for a person; None if every page is there as the manifest says."""

    @property
    def are_intact(self) -> bool:
        return self.problem is None

    @property
    def are_complete(self) -> bool:
        """Reading the document again would read nothing."""
        return self.are_intact and self.manifest is not None and not self.manifest.failed


def texts_status(storage: SiteStorage, document: Document, full: bool = False) -> TextsStatus:
    path = storage.manifest(document)
    try:
        found = manifest.load(path)
        if found is None:
            return TextsStatus(
                None, "its texts are gone" if not storage.texts(document).exists() else "its manifest is gone"
            )
        if not found.is_complete:
            return TextsStatus(found, "its manifest does not account for every page")
        # The older system's texts: which PDF they were read from, nobody knows.
        if None not in (document.sha256, found.pdf_sha256) and found.pdf_sha256 != document.sha256:
            return TextsStatus(found, "its texts are those of another PDF")
        written_at = path.stat().st_mtime_ns
        for page in found.pages:
            if page.has_text:
                _require(storage.page_text(document, page.page), page, written_at, full)
    except ManifestUnreadable as error:
        return TextsStatus(None, f"damaged: {error}")
    except FileNotFoundError as error:
        return TextsStatus(None, f"the text {Path(str(error.filename)).name} is gone")
    return TextsStatus(found, None)


def _require(path: Path, page: Page, written_at: int, full: bool) -> None:
    seen = path.stat()
    possible = page.characters <= seen.st_size <= page.characters * _BYTES_PER_CHARACTER
    if (full or not possible or seen.st_mtime_ns > written_at) and manifest.digest(path.read_bytes()) != page.sha256:
        raise ManifestUnreadable(f"{path.name} is not the text that the manifest speaks of")


def missing_images(storage: SiteStorage, document: Document, pages: Iterable[Page], which: str) -> list[int]:
    """Pages whose image is gone, of those of which one is kept (`which`: scanned, all or none).

    A document that has no folder of images was read when none were kept, or they were cleared away: none is missed.
    """
    if which == "none" or not storage.page_image(document, 1).parent.is_dir():
        return []
    kept = (page.page for page in pages if page.method == OCR or (which == "all" and page.has_text))
    return [number for number in kept if not storage.page_image(document, number).is_file()]


class PdfStatus(StrEnum):
    INTACT = "intact"
    MISSING = "missing"
    DAMAGED = "damaged"


def pdf_status(path: Path, sha256: str | None, size_bytes: int | None, full: bool = False) -> PdfStatus:
    """Of a PDF whose hash nobody knows, that it is there is all that can be said."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return PdfStatus.MISSING
    if size_bytes is not None and size != size_bytes:
        return PdfStatus.DAMAGED
    if sha256 is not None and full and sha256_file(path) != sha256:
        return PdfStatus.DAMAGED
    return PdfStatus.INTACT


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
