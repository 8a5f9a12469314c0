"""Paths of a site's files, and how they are written, in a folder or in a bucket.

In a folder every file gets a temporary name, is synced, then renamed (`install`). In a bucket it is one object, which
appears complete or not at all.

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
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO, Generic, cast

from clerk.documents.kinds import KIND_FOLDERS
from clerk.documents.media_types import type_of_extension
from clerk.documents.sanitize import folder_name, is_subdomain
from clerk.errors import StorageUnmounted
from clerk.object_storage.path import ObjectPath, P_co, StoragePath, in_parallel

_FOLDERS = "|".join(filter(None, KIND_FOLDERS.values()))
_SITES_SEEN_SECONDS = 60.0
_TEXT_FILES = (".txt", ".json")
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
    extension: str = "pdf"
    """Of the file as fetched: one of `media_types.STORED_EXTENSIONS`."""

    @property
    def media_type(self) -> str:
        return type_of_extension(self.extension)

    @property
    def stem(self) -> str:
        occurrence = f"_{self.occurrence}" if self.occurrence > 1 else ""
        revision = f"_r{self.revision}" if self.revision > 1 else ""
        return f"{self.date.isoformat()}{occurrence}{revision}"


@dataclass(frozen=True)
class SiteStorage(Generic[P_co]):
    """The files of one site, in a folder or in a bucket."""

    root: P_co
    subdomain: str

    def __post_init__(self) -> None:
        if not is_subdomain(self.subdomain):
            raise ValueError(f"{self.subdomain!r} is not a valid subdomain")

    def snapshot(self, document: Document | None = None) -> SiteStorage[P_co]:
        """For many reads, of the site or of the texts and images of one document: in a bucket, what exists is answered
        from a listing that is made now."""
        root = self.root
        if not isinstance(root, ObjectPath):
            return self
        folders = (self.folder,) if document is None else (self.texts(document), self.images(document))
        return SiteStorage(cast("P_co", root.snapshot(*cast("tuple[ObjectPath, ...]", folders))), self.subdomain)

    def live(self) -> SiteStorage[P_co]:
        """Without a snapshot."""
        root = self.root
        return SiteStorage(cast("P_co", root.live()), self.subdomain) if isinstance(root, ObjectPath) else self

    def prefetch_manifests(self, documents: Iterable[Document]) -> None:
        """Have manifests in the local cache. For a snapshot of a bucket; in a folder they are local already."""
        if isinstance(self.root, ObjectPath):
            self.root.prefetch(cast("ObjectPath", self.manifest(document)) for document in documents)

    def prefetch_texts(self, documents: Iterable[Document]) -> None:
        """Likewise for page texts, manifests and extraction results."""
        if isinstance(self.root, ObjectPath):
            folders = (cast("ObjectPath", self.texts(document)) for document in documents)
            self.root.prefetch(path for folder in folders for path in folder.iterdir() if path.suffix in _TEXT_FILES)

    @property
    def folder(self) -> P_co:
        return self._path()

    @property
    def database(self) -> P_co:
        return self._path("meetings.db")

    def pdf(self, document: Document) -> P_co:
        """The file as fetched: a PDF, or a web page or Word document with the extension of its type."""
        return self._path(*_place(document, "pdfs"), f"{document.stem}.{document.extension}")

    def storage_key(self, document: Document) -> str:
        """Path of the file as fetched relative to the site's folder, as stored in content_items."""
        return "/".join(filter(None, (*_place(document, "pdfs"), f"{document.stem}.{document.extension}")))

    def texts(self, document: Document) -> P_co:
        return self._path(*_place(document, "txt"), document.stem)

    def page_text(self, document: Document, page: int) -> P_co:
        return self._path(*_place(document, "txt"), document.stem, f"{page}.txt")

    def word_boxes(self, document: Document, page: int) -> P_co:
        return self._path(*_place(document, "txt"), document.stem, f"{page}.words.gz")

    def manifest(self, document: Document) -> P_co:
        return self._path(*_place(document, "txt"), document.stem, "manifest.json")

    def extracted(self, document: Document) -> P_co:
        return self._path(*_place(document, "txt"), document.stem, "extracted.json")

    def images(self, document: Document) -> P_co:
        """The folder of page images."""
        return self._path(*_place(document, "images"), document.stem)

    def page_image(self, document: Document, page: int) -> P_co:
        return self._path(*_place(document, "images"), document.stem, f"{page}.png")

    def kept_images(self, document: Document) -> set[int]:
        """The pages of which an image is stored."""
        names = list_names(self.images(document))
        return {int(name[:-4]) for name in names if re.fullmatch(r"[1-9][0-9]*\.png", name)}

    def page_image_url(self, document: Document, page: int) -> str:
        """Value of page_image in meetings.db: `/{Meeting}/{date}/{n}.png`, with the prefix `/_agendas` for agendas and
        that of its folder for another kind."""
        folder = KIND_FOLDERS[document.kind]
        prefix = f"/{folder}" if folder else ""
        return f"{prefix}/{folder_name(document.meeting)}/{document.stem}/{page}.png"

    def image_path(self, page_image: str) -> P_co | None:
        """Return the file of a page_image value; None if the value is invalid. It may be untrusted input."""
        match = _PAGE_IMAGE.fullmatch(page_image)
        if match is None:
            return None
        kind_folder, *path = match.groups()
        return self._path(kind_folder or "", "images", *path)

    def _path(self, *names: str) -> P_co:
        return cast("P_co", self.root.joinpath(self.subdomain, *names))


def _place(document: Document, folder: str) -> tuple[str, str, str]:
    """The folder of the document's kind, that of its texts, PDFs or images, and that of its meeting."""
    return KIND_FOLDERS[document.kind], folder, folder_name(document.meeting)


def require_mounted(root: StoragePath) -> None:
    """Raise StorageUnmounted if the storage has no folder of any site."""
    if isinstance(root, ObjectPath):
        if not _has_sites(root):
            raise StorageUnmounted(f"{root} has no files of any site, although documents are stored")
        return
    try:
        with os.scandir(root) as entries:
            if any(entry.is_dir() and is_subdomain(entry.name) for entry in entries):
                return
    except FileNotFoundError:
        pass
    raise StorageUnmounted(f"{root} has no folder of any site, although documents are stored")


_sites_seen_at: dict[ObjectPath, float] = {}


def _has_sites(root: ObjectPath) -> bool:
    """Asked before every job. The answer that there are sites holds for a minute: the listing may be long."""
    if time.monotonic() - _sites_seen_at.get(root, float("-inf")) > _SITES_SEEN_SECONDS:
        if not any(map(is_subdomain, root.folder_names())):
            return False
        _sites_seen_at[root] = time.monotonic()
    return True


def list_names(folder: StoragePath) -> list[str]:
    """The names in a folder; none if it does not exist."""
    if isinstance(folder, ObjectPath):
        return [path.name for path in folder.iterdir()]
    try:
        return os.listdir(folder)  # noqa: PTH208 (names only, without a Path for each)
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def local_copy(path: StoragePath) -> Iterator[Path]:
    """The file itself, or a copy of the object in the local cache, for programs that need a file. Read-only."""
    if isinstance(path, Path):
        yield path
    else:
        with path.local_copy() as copy:
            yield copy


def read_head(path: StoragePath, size: int) -> bytes:
    """The first bytes of a file."""
    if isinstance(path, ObjectPath):
        return path.read_head(size)
    with path.open("rb") as file:
        return file.read(size)


def relative_name(path: StoragePath, folder: StoragePath) -> str:
    """The path below a folder, with slashes."""
    assert type(path) is type(folder)
    return path.relative_to(cast("Any", folder)).as_posix()


def work_folder(folder: StoragePath) -> Path:
    """Where unfinished files are: on the file system of the folder or, for a bucket, beside the local cache."""
    return folder.cache.work_folder if isinstance(folder, ObjectPath) else folder / ".incoming"


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


def make_folder(folder: StoragePath) -> None:
    """Create a folder and its missing parents, durably. In a bucket, folders need not be created."""
    if isinstance(folder, ObjectPath) or folder.is_dir():
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


def write(path: StoragePath, content: bytes | str) -> None:
    content = content.encode() if isinstance(content, str) else content
    if isinstance(path, ObjectPath):
        path.write(content)
        return
    with atomic_write(path) as file:
        file.write(content)


def write_files(folder: StoragePath, files: Mapping[str, bytes]) -> None:
    """Like `write` for several files of a folder, with one fsync of the folder instead of one per file. In a bucket,
    with several requests at a time."""
    if isinstance(folder, ObjectPath):
        objects = [(folder / name, content) for name, content in files.items()]
        in_parallel(lambda item: item[0].write(item[1]), objects)
        return
    with contextlib.ExitStack() as stack:
        paths = [(stack.enter_context(temporary_file(folder / name)), folder / name) for name in files]
        for (temporary, _), content in zip(paths, files.values(), strict=True):
            temporary.write_bytes(content)
        install(*paths)


def delete_folder(folder: StoragePath) -> None:
    """Delete a folder with all files below it."""
    if isinstance(folder, ObjectPath):
        folder.delete_tree()
    else:
        shutil.rmtree(folder)


@dataclass(frozen=True)
class PendingDownload:
    """A downloaded file whose final path is not known yet. It is deleted unless it is moved."""

    file: BinaryIO
    path: Path

    def move_to(self, final: StoragePath) -> None:
        """Move the file to its final path. A different file at that path is kept under another name."""
        self.file.flush()
        make_folder(final.parent)
        if final.is_file() and sha256_file(final) != sha256_file(self.path):
            quarantine(final, "replaced")
        if isinstance(final, ObjectPath):
            final.upload(self.path)
            return
        self.path.chmod(0o644)
        install((self.path, final))


@contextlib.contextmanager
def pending_download(folder: StoragePath) -> Iterator[PendingDownload]:
    """Create a temporary file on the file system of the site's folder or, for a bucket, of the local cache."""
    incoming = work_folder(folder)
    make_folder(incoming)
    descriptor, temporary = tempfile.mkstemp(suffix=".part", dir=incoming)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield PendingDownload(file, Path(temporary))
    finally:
        Path(temporary).unlink(missing_ok=True)


def delete_stale(folder: StoragePath, older_than: float) -> None:
    """Delete unfinished downloads that no worker has written to for `older_than` seconds."""
    for path in work_folder(folder).glob("*.part"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and path.stat().st_mtime < time.time() - older_than:
                path.unlink()


def quarantine(path: StoragePath, suffix: str) -> None:
    """Rename a file to `{name}.{suffix}`, with a number if that exists."""
    suffixes = itertools.chain([suffix], (f"{suffix}-{number}" for number in itertools.count(2)))
    candidates = (path.with_name(f"{path.name}.{candidate}") for candidate in suffixes)
    path.rename(cast("Any", next(candidate for candidate in candidates if not candidate.exists())))
    if isinstance(path, Path):
        fsync(path.parent)


def sha256_file(path: StoragePath) -> str:
    if isinstance(path, ObjectPath):
        return path.sha256()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
