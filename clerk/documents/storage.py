"""Where a site's files lie, and how they get there: under a temporary name, synced, then renamed.

STORAGE_DIR/{subdomain}/pdfs/{Meeting}/{date}.pdf          the PDF as fetched
                        txt/{Meeting}/{date}/{n}.txt       a file per page
                        txt/{Meeting}/{date}/manifest.json what became of each page
                        txt/{Meeting}/{date}/extracted.json people and votes
                        images/{Meeting}/{date}/{n}.png
                        meetings.db
agendas the same under _agendas/. The second meeting of a day is `{date}_2`, the second revision `{date}_r2`.
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
    """Why it could not be had, or could not be checked for news, the last time that was tried."""
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
            raise ValueError(f"{self.subdomain!r} is not a subdomain")

    @property
    def folder(self) -> Path:
        return self.root / self.subdomain

    @property
    def database(self) -> Path:
        return self.folder / "meetings.db"

    def pdf(self, document: Document) -> Path:
        return self._base(document) / "pdfs" / folder_name(document.meeting) / f"{document.stem}.pdf"

    def storage_key(self, document: Document) -> str:
        """The PDF's path below the site's folder, as kept in content_items."""
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
        """What meetings.db says: `/{Meeting}/{date}/{n}.png`, with `/_agendas` in front for agendas."""
        prefix = "/_agendas" if document.kind == "agenda" else ""
        return f"{prefix}/{folder_name(document.meeting)}/{document.stem}/{page}.png"

    def image_path(self, page_image: str) -> Path | None:
        """Where the image is that meetings.db names so; None if that is no such name. It may come from anywhere."""
        found = _PAGE_IMAGE.fullmatch(page_image)
        if found is None:
            return None
        agenda, *path = found.groups()
        return (self.folder / "_agendas" if agenda else self.folder).joinpath("images", *path)

    def _base(self, document: Document) -> Path:
        return self.folder / "_agendas" if document.kind == "agenda" else self.folder


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A file to write to; it appears under `path` complete, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # noqa: PTH101 (mkstemp makes it private; published files are not)
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    fsync_dir(path.parent)


@dataclass(frozen=True)
class PendingDownload:
    """Content whose final name is not known yet; removed unless it is given one."""

    file: BinaryIO
    path: Path

    def move_to(self, final: Path) -> None:
        """Something else under that name is set aside: whatever it is, it was fetched once."""
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
    """A file on the same disk as where it will go."""
    waiting = folder / ".incoming"
    waiting.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(suffix=".part", dir=waiting)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield PendingDownload(file, Path(temporary))
    finally:
        Path(temporary).unlink(missing_ok=True)


def delete_stale(folder: Path, older_than: float) -> None:
    """Removes what workers that died left in `incoming`: files untouched for so many seconds."""
    for path in (folder / ".incoming").glob("*.part"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - older_than:
                path.unlink()


def write(path: Path, content: bytes | str) -> None:
    with atomic_write(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def quarantine(path: Path, ending: str) -> None:
    """Out of the way, and kept: `{name}.{ending}`, with a number where something was set aside before."""
    names = itertools.chain([ending], (f"{ending}-{number}" for number in itertools.count(2)))
    free = (path.with_name(f"{path.name}.{name}") for name in names)
    path.rename(next(place for place in free if not place.exists()))
    fsync_dir(path.parent)


def sha256_file(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_dir(folder: Path) -> None:
    """Makes a rename durable: on its own it may be undone by a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
