"""Paths of a site's files, and atomic writing: files get a temporary name, are synced, then renamed.

STORAGE_DIR/{subdomain}/pdfs/{Meeting}/{date}.pdf           PDF as downloaded
                        txt/{Meeting}/{date}/{n}.txt        text of a page
                        txt/{Meeting}/{date}/manifest.json  result of OCR for each page
                        txt/{Meeting}/{date}/extracted.json people, organisations, places and votes
                        images/{Meeting}/{date}/{n}.png     image of a page
                        meetings.db                         compiled archive
Agendas have the same folders below _agendas/. The second meeting of a day is `{date}_2`, a second revision `{date}_r2`.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import BinaryIO

from clerk.documents.sanitize import folder_name, is_subdomain

_PAGE_IMAGE = re.compile(r"/(_agendas/)?([^/.\0][^/\0]*)/([^/.\0][^/\0]*)/([0-9]+\.png)")


@dataclass(frozen=True)
class Document:
    """A content item of kind minutes or agenda."""

    id: int
    subdomain: str
    kind: str
    meeting: str
    date: date
    occurrence: int = 1
    revision: int = 1
    sha256: str | None = None
    source_url: str | None = None
    fetch_error_code: str | None = None
    """Error of the last download, or of the last check for changes."""
    fetch_error_message: str | None = None

    @property
    def stem(self) -> str:
        occurrence = f"_{self.occurrence}" if self.occurrence > 1 else ""
        revision = f"_r{self.revision}" if self.revision > 1 else ""
        return f"{self.date.isoformat()}{occurrence}{revision}"


@dataclass(frozen=True)
class SiteStorage:
    """The folder of one site."""

    root: Path
    subdomain: str

    def __post_init__(self) -> None:
        if not is_subdomain(self.subdomain):
            raise ValueError(f"{self.subdomain!r} is not a valid subdomain")

    @property
    def folder(self) -> Path:
        return self.root / self.subdomain

    @property
    def database(self) -> Path:
        return self.folder / "meetings.db"

    def pdf(self, document: Document) -> Path:
        return self._base(document) / "pdfs" / folder_name(document.meeting) / f"{document.stem}.pdf"

    def storage_key(self, document: Document) -> str:
        """Path of the PDF relative to the site's folder, as stored in content_items."""
        return self.pdf(document).relative_to(self.folder).as_posix()

    def texts(self, document: Document) -> Path:
        return self._base(document) / "txt" / folder_name(document.meeting) / document.stem

    def page_text(self, document: Document, page: int) -> Path:
        return self.texts(document) / f"{page}.txt"

    def manifest(self, document: Document) -> Path:
        return self.texts(document) / "manifest.json"

    def extracted(self, document: Document) -> Path:
        return self.texts(document) / "extracted.json"

    def page_image(self, document: Document, page: int) -> Path:
        return self._base(document) / "images" / folder_name(document.meeting) / document.stem / f"{page}.png"

    def page_image_url(self, document: Document, page: int) -> str:
        """Value of page_image in meetings.db: `/{Meeting}/{date}/{n}.png`, with the prefix `/_agendas` for agendas."""
        prefix = "/_agendas" if document.kind == "agenda" else ""
        return f"{prefix}/{folder_name(document.meeting)}/{document.stem}/{page}.png"

    def image_path(self, page_image: str) -> Path | None:
        """Return the file of a page_image value; None if the value is invalid. It may be untrusted input."""
        match = _PAGE_IMAGE.fullmatch(page_image)
        if match is None:
            return None
        agenda, *path = match.groups()
        return (self.folder / "_agendas" if agenda else self.folder).joinpath("images", *path)

    def _base(self, document: Document) -> Path:
        return self.folder / "_agendas" if document.kind == "agenda" else self.folder


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears at `path` complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # noqa: PTH101 (mkstemp makes it private)
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    fsync_dir(path.parent)


@dataclass(frozen=True)
class PendingDownload:
    """A downloaded file whose final path is not known yet. It is deleted unless it is moved."""

    file: BinaryIO
    path: Path

    def move_to(self, final: Path) -> None:
        """Move the file to its final path. A different file at that path is kept under another name."""
        self.file.flush()
        os.fsync(self.file.fileno())
        final.parent.mkdir(parents=True, exist_ok=True)
        if final.exists() and sha256_file(final) != sha256_file(self.path):
            quarantine(final, "replaced")
        self.path.chmod(0o644)
        self.path.replace(final)
        fsync_dir(final.parent)


@contextlib.contextmanager
def pending_download(folder: Path) -> Iterator[PendingDownload]:
    """Create a temporary file on the file system of the site's folder."""
    incoming = folder / ".incoming"
    incoming.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(suffix=".part", dir=incoming)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield PendingDownload(file, Path(temporary))
    finally:
        Path(temporary).unlink(missing_ok=True)


def delete_stale(folder: Path, older_than: float) -> None:
    """Delete downloads in `.incoming` that no worker has written to for `older_than` seconds."""
    for path in (folder / ".incoming").glob("*.part"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - older_than:
                path.unlink()


def write(path: Path, content: bytes | str) -> None:
    with atomic_write(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def quarantine(path: Path, suffix: str) -> None:
    """Rename a file to `{name}.{suffix}`, with a number if that exists."""
    suffixes = itertools.chain([suffix], (f"{suffix}-{number}" for number in itertools.count(2)))
    candidates = (path.with_name(f"{path.name}.{candidate}") for candidate in suffixes)
    path.rename(next(candidate for candidate in candidates if not candidate.exists()))
    fsync_dir(path.parent)


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_dir(folder: Path) -> None:
    """Make a rename in the folder durable: without this, a power failure may undo it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
