"""Paths of a site's files, and atomic writing: every file gets a temporary name, is synced, then renamed (`install`).

STORAGE_DIR/{subdomain}/pdfs/{Meeting}/{date}.pdf           PDF as downloaded
                        txt/{Meeting}/{date}/{n}.txt        text of a page
                        txt/{Meeting}/{date}/{n}.words.gz   word boxes of a page, see word_boxes.py
                        txt/{Meeting}/{date}/manifest.json  result of OCR for each page
                        txt/{Meeting}/{date}/extracted.json people, organisations, places and votes
                        images/{Meeting}/{date}/{n}.png     image of a page
                        meetings.db                         compiled archive
Agendas have the same folders below _agendas/, and so do the other kinds (`clerk.documents.kinds`).
The second meeting of a day is `{date}_2`, a second revision `{date}_r2`.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import BinaryIO

from clerk.documents.kinds import KIND_FOLDERS
from clerk.documents.sanitize import folder_name, is_subdomain
from clerk.errors import StorageUnmounted

_FOLDERS = "|".join(filter(None, KIND_FOLDERS.values()))
_PAGE_IMAGE = re.compile(rf"/(?:({_FOLDERS})/)?([^/.\0][^/\0]*)/([^/.\0][^/\0]*)/([0-9]+\.png)")


@dataclass(frozen=True)
class Document:
    """A content item that is not a site's archive."""

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

    def word_boxes(self, document: Document, page: int) -> Path:
        return self.texts(document) / f"{page}.words.gz"

    def manifest(self, document: Document) -> Path:
        return self.texts(document) / "manifest.json"

    def extracted(self, document: Document) -> Path:
        return self.texts(document) / "extracted.json"

    def page_image(self, document: Document, page: int) -> Path:
        return self._base(document) / "images" / folder_name(document.meeting) / document.stem / f"{page}.png"

    def kept_images(self, document: Document) -> set[int]:
        """The pages of which an image is stored."""
        try:
            names = os.listdir(self.page_image(document, 1).parent)  # noqa: PTH208 (names only, without a Path for each)
        except FileNotFoundError:
            return set()
        return {int(name[:-4]) for name in names if re.fullmatch(r"[1-9][0-9]*\.png", name)}

    def page_image_url(self, document: Document, page: int) -> str:
        """Value of page_image in meetings.db: `/{Meeting}/{date}/{n}.png`, with the prefix `/_agendas` for agendas and
        that of its folder for another kind."""
        folder = KIND_FOLDERS[document.kind]
        prefix = f"/{folder}" if folder else ""
        return f"{prefix}/{folder_name(document.meeting)}/{document.stem}/{page}.png"

    def image_path(self, page_image: str) -> Path | None:
        """Return the file of a page_image value; None if the value is invalid. It may be untrusted input."""
        match = _PAGE_IMAGE.fullmatch(page_image)
        if match is None:
            return None
        kind_folder, *path = match.groups()
        return (self.folder / (kind_folder or "")).joinpath("images", *path)

    def _base(self, document: Document) -> Path:
        return self.folder / KIND_FOLDERS[document.kind]


def require_mounted(root: Path) -> None:
    """Raise StorageUnmounted if the storage has no folder of any site."""
    try:
        with os.scandir(root) as entries:
            if any(entry.is_dir() and is_subdomain(entry.name) for entry in entries):
                return
    except FileNotFoundError:
        pass
    raise StorageUnmounted(f"{root} has no folder of any site, although documents are stored")


@contextlib.contextmanager
def temporary_file(final: Path) -> Iterator[Path]:
    """An empty file with a temporary name beside `final`, deleted at the end unless it was renamed."""
    make_folder(final.parent)
    descriptor, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".part", dir=final.parent)
    os.fchmod(descriptor, 0o644)  # mkstemp makes it private
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def install(*files: tuple[Path, Path], before_rename: Callable[[], None] | None = None) -> None:
    """Rename each (temporary, final) path, so that a final path never names an incomplete file, not even after a power
    failure. When this returns, the final paths are durable.

    A path may also be a folder, whose files are durable already, or a symbolic link to one. `before_rename` may raise
    to leave the final paths as they are.
    """
    for temporary, _ in files:
        fsync(temporary)
    if before_rename is not None:
        before_rename()
    for temporary, final in files:
        temporary.replace(final)
    for folder in {final.parent for _, final in files}:
        fsync(folder)


def fsync(path: Path) -> None:
    """Make the content of a file durable, or the names in a folder: after a power failure a renamed file may otherwise
    be empty, or have its old name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, durably."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    fsync(folder.parent)


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears at `path` complete or not at all."""
    with temporary_file(path) as temporary:
        with temporary.open("wb") as file:
            yield file
        install((temporary, path))


def write(path: Path, content: bytes | str) -> None:
    with atomic_write(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Like `write` for several files of a folder, with one fsync of the folder instead of one per file."""
    with contextlib.ExitStack() as stack:
        paths = [(stack.enter_context(temporary_file(folder / name)), folder / name) for name in files]
        for (temporary, _), content in zip(paths, files.values(), strict=True):
            temporary.write_bytes(content)
        install(*paths)


@dataclass(frozen=True)
class PendingDownload:
    """A downloaded file whose final path is not known yet. It is deleted unless it is moved."""

    file: BinaryIO
    path: Path

    def move_to(self, final: Path) -> None:
        """Move the file to its final path. A different file at that path is kept under another name."""
        self.file.flush()
        make_folder(final.parent)
        if final.exists() and sha256_file(final) != sha256_file(self.path):
            quarantine(final, "replaced")
        self.path.chmod(0o644)
        install((self.path, final))


@contextlib.contextmanager
def pending_download(folder: Path) -> Iterator[PendingDownload]:
    """Create a temporary file on the file system of the site's folder."""
    incoming = folder / ".incoming"
    make_folder(incoming)
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


def quarantine(path: Path, suffix: str) -> None:
    """Rename a file to `{name}.{suffix}`, with a number if that exists."""
    suffixes = itertools.chain([suffix], (f"{suffix}-{number}" for number in itertools.count(2)))
    candidates = (path.with_name(f"{path.name}.{candidate}") for candidate in suffixes)
    path.rename(next(candidate for candidate in candidates if not candidate.exists()))
    fsync(path.parent)


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
