"""Paths of files in storage: a `pathlib.Path` in a folder, or an `ObjectPath` in a bucket.

`ObjectPath` has those methods of `pathlib.Path` that clerk uses to read, list and delete. A key is the path below the
prefix of STORAGE_DIR; a folder exists if an object is below it. Files are written by the functions of
`clerk.documents.storage`, which work for both.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from clerk.errors import StorageConflict
from clerk.object_storage.bucket import Bucket, ObjectInfo
from clerk.object_storage.cache import FileCache
from clerk.object_storage.listing import Listing
from clerk.object_storage.url import BucketUrl

_PARALLEL_REQUESTS = 16
_MAX_CACHED_WRITE = 1 << 16
"""Bytes. Page texts are read again by the extraction and the compilation, often on the same machine."""
_LAST_OF_SECOND = 0.999_999
"""S3 cuts times to seconds. A time is taken for the end of its second, so that a change is never overlooked."""


@dataclass(frozen=True)
class ObjectStat:
    """The part of `os.stat_result` that clerk uses."""

    st_size: int
    st_mtime: float

    @property
    def st_mtime_ns(self) -> int:
        return round(self.st_mtime * 1e9)


@functools.total_ordering
class ObjectPath:
    """An object in a bucket, or a folder of objects."""

    __slots__ = ("bucket", "cache", "is_immutable", "key", "listing")

    def __init__(
        self,
        bucket: Bucket,
        cache: FileCache,
        key: str = "",
        listing: Listing | None = None,
        is_immutable: bool = False,
    ) -> None:
        self.bucket = bucket
        self.cache = cache
        self.key = key
        self.listing = listing
        self.is_immutable = is_immutable
        """The object never changes: a cached copy is used without asking the bucket."""

    # --- the path itself

    def _at(self, key: str) -> ObjectPath:
        return ObjectPath(self.bucket, self.cache, key, self.listing, self.is_immutable)

    def __truediv__(self, name: str) -> ObjectPath:
        return self.joinpath(name)

    def joinpath(self, *names: str) -> ObjectPath:
        parts = [part for name in (self.key, *names) for part in str(name).split("/") if part]
        if any(part in (".", "..") for part in parts):
            raise ValueError(f"{'/'.join(parts)!r} is not a key")
        return self._at("/".join(parts))

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> ObjectPath:
        return self._at(self.key.rpartition("/")[0])

    def with_name(self, name: str) -> ObjectPath:
        return self.parent / name

    def relative_to(self, other: ObjectPath) -> PurePosixPath:
        if not self.is_relative_to(other):
            raise ValueError(f"{self} is not below {other}")
        return PurePosixPath(self.key[len(other.key) :].lstrip("/"))

    def is_relative_to(self, other: object) -> bool:
        return (
            isinstance(other, ObjectPath)
            and self.bucket == other.bucket
            and (not other.key or f"{self.key}/".startswith(f"{other.key}/"))
        )

    def resolve(self) -> ObjectPath:
        return self

    def __str__(self) -> str:
        return f"{self.bucket.url}/{self.key}" if self.key else str(self.bucket.url)

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and (self.bucket, self.key) == (other.bucket, other.key)

    def __hash__(self) -> int:
        return hash((self.bucket, self.key))

    def __lt__(self, other: ObjectPath) -> bool:
        return self.key < other.key

    # --- reading

    def snapshot(self, *folders: ObjectPath) -> ObjectPath:
        """The same path with the state of `folders` as it is now: what exists in them, sizes and times come from one
        listing of each."""
        objects = (info for folder in folders for info in folder._list())
        listing = Listing([folder.key for folder in folders], objects)
        return ObjectPath(self.bucket, self.cache, self.key, listing, self.is_immutable)

    def live(self) -> ObjectPath:
        """The same path without a snapshot: the bucket is asked for its state."""
        return ObjectPath(self.bucket, self.cache, self.key)

    def immutable(self) -> ObjectPath:
        return ObjectPath(self.bucket, self.cache, self.key, self.listing, is_immutable=True)

    def _listing(self) -> Listing | None:
        return self.listing if self.listing is not None and self.listing.covers(self.key) else None

    def _list(self) -> Iterator[ObjectInfo]:
        return self.bucket.list_objects(f"{self.key}/" if self.key else "")

    def info(self) -> ObjectInfo:
        """Raises FileNotFoundError."""
        if (listing := self._listing()) is None:
            return self.bucket.info(self.key)
        if self.key not in listing.objects:
            raise FileNotFoundError(2, "No such object", str(self))
        return listing.objects[self.key]

    def stat(self) -> ObjectStat:
        info = self.info()
        return ObjectStat(info.size, info.modified.replace(microsecond=0).timestamp() + _LAST_OF_SECOND)

    def is_file(self) -> bool:
        try:
            self.info()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        if (listing := self._listing()) is not None:
            return bool(listing.names(self.key))
        return next(self._list(), None) is not None

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def read_bytes(self) -> bytes:
        """By way of the cache, if it is known which version of the object there is."""
        if self.is_immutable:
            expected = None
        elif self._listing() is None:
            return self.bucket.read(self.key)[1]
        else:
            expected = self.info()
        content = self.cache.get(self._cache_name(expected))
        if content is None:
            found, content = self.bucket.read(self.key)
            self.cache.put(self._cache_name(None if self.is_immutable else found), content)
        return content

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    def read_head(self, size: int) -> bytes:
        return self.bucket.read_head(self.key, size)

    def open(self, mode: str = "rb") -> BinaryIO:
        """The whole content in memory."""
        if mode != "rb":
            raise ValueError(f"an object cannot be opened with mode {mode!r}")
        return io.BytesIO(self.read_bytes())

    def sha256(self) -> str:
        return self.bucket.sha256(self.key)

    @contextlib.contextmanager
    def local_copy(self) -> Iterator[Path]:
        """A file with the content, in the local cache, until the end of the block. Read-only: others use it too."""
        expected = None if self.is_immutable else self.info()

        def download(file: BinaryIO) -> None:
            found = self.bucket.download(self.key, file)
            if expected is not None and found.identity != expected.identity:
                raise StorageConflict(f"{self} was replaced while it was downloaded")

        with self.cache.open(self._cache_name(expected), download) as path:
            yield path

    def _cache_name(self, info: ObjectInfo | None) -> str:
        return f"{self.bucket.url.with_options} {info.identity if info else 'immutable'} {self.key}"

    def prefetch(self, paths: Iterable[ObjectPath]) -> None:
        """Read small objects into the cache, several at a time. Objects that do not exist are left out."""

        def fetch(path: ObjectPath) -> None:
            with contextlib.suppress(FileNotFoundError):
                if not self.cache.has(path._cache_name(path.info())):
                    path.read_bytes()

        in_parallel(fetch, [path for path in paths if path._listing() is not None])

    def iterdir(self) -> Iterator[ObjectPath]:
        if (listing := self._listing()) is not None:
            names = list(listing.names(self.key))
        else:
            folders, objects = self.bucket.children(f"{self.key}/" if self.key else "")
            names = [key.rstrip("/").rpartition("/")[2] for key in (*folders, *(info.key for info in objects))]
        yield from (self / name for name in names)

    def folder_names(self) -> list[str]:
        """The names of the folders directly below this one."""
        folders, _ = self.bucket.children(f"{self.key}/" if self.key else "")
        return [key.rstrip("/").rpartition("/")[2] for key in folders]

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """Patterns of names with `*`, separated by slashes. Also yields folders."""
        first, _, rest = pattern.partition("/")
        matches = _pattern(first)
        for path in self.iterdir():
            if matches(path.name):
                if rest:
                    yield from path.glob(rest)
                else:
                    yield path

    def rglob(self, pattern: str) -> Iterator[ObjectPath]:
        """Objects below the folder whose name matches."""
        matches = _pattern(pattern)
        listing = self._listing()
        objects = self._list() if listing is None else list(listing.objects.values())
        below = f"{self.key}/" if self.key else ""
        for info in objects:
            if info.key.startswith(below) and matches(info.key.rpartition("/")[2]):
                yield self._at(info.key)

    # --- writing

    def write(self, content: bytes) -> None:
        """Write a new object, or replace the one that is there."""
        written = self.bucket.write(self.key, content)
        if len(content) <= _MAX_CACHED_WRITE:
            self.cache.put(self._cache_name(written), content)
        self._record(written)

    write_bytes = write

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        self.write(text.encode(encoding))

    def create(self, content: bytes) -> bool:
        """Write a new object. False if there is one with other content."""
        written = self.bucket.create(self.key, content)
        if written is not None:
            self._record(written)
        return written is not None

    def replace_content(self, content: bytes, expected: ObjectInfo) -> None:
        """Replace the object if it is still the expected one. Raises StorageConflict."""
        self._record(self.bucket.replace(self.key, content, expected))

    def overwrite(self, content: bytes) -> None:
        self._record(self.bucket.overwrite(self.key, content))

    def upload(self, file: Path) -> None:
        """Write, or replace, the object with the content of a local file."""
        self.bucket.upload(self.key, file)
        if self._listing() is not None:
            self._record(self.bucket.info(self.key))

    def rename(self, target: ObjectPath) -> None:
        self.bucket.copy(self.key, target.key)
        if target._listing() is not None:
            target._record(target.bucket.info(target.key))
        self.unlink()

    def unlink(self, missing_ok: bool = False) -> None:
        if (listing := self._listing()) is not None and self.key not in listing.objects and missing_ok:
            return
        if not missing_ok:
            self.info()
        self.bucket.delete([self.key])
        self._record(None)

    def delete_tree(self) -> int:
        """Delete all objects below a folder. Returns how many."""
        keys = [info.key for info in self._list()]
        for start in range(0, len(keys), 1000):
            self.bucket.delete(keys[start : start + 1000])
        for key in keys:
            self._at(key)._record(None)
        return len(keys)

    def _record(self, info: ObjectInfo | None) -> None:
        if (listing := self._listing()) is not None:
            listing.record(self.key, info)


StoragePath = Path | ObjectPath
"""A file or folder in storage."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    _T = TypeVar("_T")
    P_co = TypeVar("P_co", bound=StoragePath, covariant=True, default=StoragePath)
else:
    from typing import TypeVar

    _T, P_co = TypeVar("_T"), TypeVar("P_co")


def object_root(url: BucketUrl, cache_folder: Path, cache_bytes: int) -> ObjectPath:
    """The root of a storage in a bucket."""
    return ObjectPath(_bucket(url), _cache(cache_folder, cache_bytes))


# One of each per process: a bucket keeps connections open, a cache counts what it adds.
_bucket = functools.cache(Bucket)
_cache = functools.cache(FileCache)


def in_parallel(function: Callable[[_T], Any], items: list[_T]) -> None:
    """Call a function for each item, several at a time: each call waits for the network. Raises the first error."""
    if len(items) <= 1:
        for item in items:
            function(item)
        return
    for future in [_executor().submit(function, item) for item in items]:
        future.result()


@functools.cache
def _executor_of(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_PARALLEL_REQUESTS, thread_name_prefix="object-storage")


def _executor() -> ThreadPoolExecutor:
    return _executor_of(os.getpid())


@functools.cache
def _pattern(pattern: str) -> Callable[[str], Any]:
    """Unlike fnmatch: `[` has no special meaning, since names of meetings may contain it."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL).fullmatch
