"""Integrity check of a document's files: texts against their manifest, the PDF against its hash.

The quick check accepts a text file whose size is plausible and which is not newer than its manifest. The full check
hashes every file. Only files that do not exist count as missing: other errors (disk failure, permissions) are raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from clerk.documents import manifest
from clerk.documents.manifest import OCR, Manifest, ManifestUnreadable, Page
from clerk.documents.storage import Document, SiteStorage, sha256_file
from clerk.object_storage.path import StoragePath

_MAX_BYTES_PER_CHARACTER = 4
"""Of UTF-8."""


@dataclass(frozen=True)
class TextsStatus:
    manifest: Manifest | None
    problem: str | None
    """What is wrong, as a message; None if every page has the text that the manifest records."""

    @property
    def are_intact(self) -> bool:
        return self.problem is None

    @property
    def are_complete(self) -> bool:
        """The texts are intact and OCR failed for no page."""
        return self.are_intact and self.manifest is not None and not self.manifest.failed


def texts_status(storage: SiteStorage, document: Document, full: bool = False) -> TextsStatus:
    path = storage.manifest(document)
    try:
        loaded = manifest.load(path)
        if loaded is None:
            missing = "manifest is" if storage.texts(document).exists() else "texts are"
            return TextsStatus(None, f"its {missing} missing")
        if not loaded.is_complete:
            return TextsStatus(loaded, "its manifest does not list every page")
        # The PDF of texts that were imported from legacy clerk is unknown.
        if None not in (document.sha256, loaded.pdf_sha256) and loaded.pdf_sha256 != document.sha256:
            return TextsStatus(loaded, "its texts belong to another PDF")
        written_at = path.stat().st_mtime_ns
        for page in loaded.pages:
            if page.has_text:
                _check_text(storage.page_text(document, page.page), page, written_at, full)
    except ManifestUnreadable as error:
        return TextsStatus(None, str(error))
    except FileNotFoundError as error:
        return TextsStatus(None, f"the text file {Path(str(error.filename)).name} is missing")
    return TextsStatus(loaded, None)


def _check_text(path: StoragePath, page: Page, written_at: int, full: bool) -> None:
    status = path.stat()
    plausible = page.characters <= status.st_size <= page.characters * _MAX_BYTES_PER_CHARACTER
    if (full or not plausible or status.st_mtime_ns > written_at) and manifest.digest(path.read_bytes()) != page.sha256:
        raise ManifestUnreadable(f"{path.name} differs from the hash in the manifest")


def missing_images(storage: SiteStorage, document: Document, pages: Iterable[Page], which: str) -> list[int]:
    """Return the pages whose image is missing, where `which` is the policy: scanned, all or none.

    A document without a folder of images was processed when none were kept, or its images were deleted on purpose: none
    is missing.
    """
    if which == "none" or not storage.images(document).is_dir():
        return []
    expected = (page.page for page in pages if page.method == OCR or (which == "all" and page.has_text))
    return [number for number in expected if not storage.page_image(document, number).is_file()]


class PdfStatus(StrEnum):
    INTACT = "intact"
    MISSING = "missing"
    DAMAGED = "damaged"


def pdf_status(path: StoragePath, sha256: str | None, size_bytes: int | None, full: bool = False) -> PdfStatus:
    """Compare size and, if `full`, hash. A PDF whose hash is unknown is intact if it exists."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return PdfStatus.MISSING
    if size_bytes is not None and size != size_bytes:
        return PdfStatus.DAMAGED
    if sha256 is not None and full and sha256_file(path) != sha256:
        return PdfStatus.DAMAGED
    return PdfStatus.INTACT
