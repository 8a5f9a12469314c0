"""A bucket: the few operations that clerk needs, by obstore, with clerk's errors.

Keys are relative to the prefix of the address. An object is written once (`If-None-Match: *`) or replaced on condition
that it is unchanged (`If-Match`). If the reply to a write is lost, the write is repeated; an object that is there
already and has the same content counts as written. Every object carries the SHA-256 of its content, which is checked
when it is downloaded to a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from clerk.errors import (
    BucketMissing,
    StorageConflict,
    StorageError,
    StorageRefused,
    StorageUnavailable,
    StorageUnreachable,
    UploadDamaged,
)
from clerk.object_storage.url import BucketUrl

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_SHA256 = "clerk-sha256"
_ATTEMPTS = 4
"""Of a request, by the library."""
_WRITE_ATTEMPTS = 3
"""Of a conditional write, each with the attempts of the library."""
_BACKOFF = timedelta(milliseconds=100)
_MAX_BACKOFF = timedelta(seconds=5)
_CONNECT_TIMEOUT = timedelta(seconds=10)
_REQUEST_TIMEOUT = timedelta(hours=1)
"""Of a whole request: a large database over a slow network."""
_SINGLE_UPLOAD_BYTES = 64 << 20
"""Larger files are uploaded in parts, which the services do not combine with a condition."""
_MISSING_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist", "ContainerBeingDeleted")
_REFUSED = ("PermissionDenied", "Unauthenticated", "status code: 401", "status code: 403", "credential")
_HTTP_ERROR = re.compile(r"(?P<scheme>https?://)(?:[^\s/?@]*@)?(?P<host>[^\s/?]*)\S* .*HTTP error: (?P<error>.*)")
"""The first line of an error without an answer of the service."""
_BUCKET_CHECK_SECONDS = 10.0
_PROBE = ".clerk-probe"


@dataclass(frozen=True)
class ObjectInfo:
    key: str
    size: int
    modified: datetime
    """Whole seconds on S3."""
    etag: str | None
    version: str | None = None

    @property
    def identity(self) -> str:
        """Differs if the content differs."""
        return f"{self.etag} {self.version} {self.size}" + ("" if self.etag else f" {self.modified.isoformat()}")


class Bucket:
    """One bucket, below one prefix. Safe for threads. Not for a forked child: it connects again in its own process."""

    def __init__(self, url: BucketUrl) -> None:
        self.url = url
        self._etag_is_md5 = True
        self._seen_at = float("-inf")
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Bucket({str(self.url)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bucket) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    @cached_property
    def _store(self) -> ObjectStore:
        from obstore.store import AzureStore, GCSStore, S3Store

        url = self.url
        options: dict[str, Any] = {
            "prefix": url.prefix or None,
            "client_options": {
                "allow_http": (url.endpoint or "").startswith("http://"),
                "connect_timeout": min(_CONNECT_TIMEOUT, timedelta(seconds=url.timeout)),
                "read_timeout": timedelta(seconds=url.timeout),
                "timeout": _REQUEST_TIMEOUT,
            },
            "retry_config": {
                "max_retries": _ATTEMPTS - 1,
                "retry_timeout": timedelta(seconds=url.timeout * _ATTEMPTS),
                "backoff": {"init_backoff": _BACKOFF, "max_backoff": _MAX_BACKOFF, "base": 2},
            },
        }
        if url.scheme == "gs":
            return GCSStore(url.bucket, **options)
        if url.endpoint:
            options["endpoint"] = url.endpoint
        if url.scheme == "az":
            return AzureStore(url.bucket, **options)
        if url.region:
            options["region"] = url.region
        return S3Store(url.bucket, **options)

    # --- reading

    def read(self, key: str) -> tuple[ObjectInfo, bytes]:
        """Raises FileNotFoundError."""
        import obstore

        with self._errors(key):
            found = obstore.get(self._store, key)
            return _info(key, found.meta), bytes(found.bytes())

    def read_head(self, key: str, size: int) -> bytes:
        """The first bytes."""
        import obstore

        info = self.info(key)
        if not info.size:
            return b""
        with self._errors(key):
            return bytes(obstore.get_range(self._store, key, start=0, end=min(size, info.size)))

    def info(self, key: str) -> ObjectInfo:
        """Raises FileNotFoundError."""
        import obstore

        try:
            with self._errors(key):
                return _info(key, obstore.head(self._store, key))
        except FileNotFoundError:
            # The reply to HEAD has no body: a missing bucket looks like a missing object.
            self._require_bucket()
            raise

    def download(self, key: str, file: BinaryIO) -> ObjectInfo:
        """Write an object to a file. Raises StorageUnreachable unless size and hash are those of the object."""
        import obstore

        with self._errors(key):
            found = obstore.get(self._store, key)
            info, expected = _info(key, found.meta), found.attributes.get(_SHA256)
            digest, size = hashlib.sha256(), 0
            for chunk in found.stream(min_chunk_size=1 << 20):
                content = bytes(chunk)
                digest.update(content)
                size += len(content)
                file.write(content)
        if size != info.size or (expected is not None and expected != digest.hexdigest()):
            raise StorageUnreachable(f"{self._name(key)} was downloaded as {size} bytes that differ from the object")
        return info

    def sha256(self, key: str) -> str:
        """The hash of the content, which is read for it."""
        import obstore

        digest = hashlib.sha256()
        with self._errors(key):
            for chunk in obstore.get(self._store, key).stream(min_chunk_size=1 << 20):
                digest.update(bytes(chunk))
        return digest.hexdigest()

    def list_objects(self, prefix: str) -> Iterator[ObjectInfo]:
        """The objects below a prefix that ends with a slash, or is empty."""
        import obstore

        with self._errors(prefix):
            for chunk in obstore.list(self._store, prefix or None, chunk_size=1000):
                for found in chunk:
                    yield _info(found["path"], found)

    def children(self, prefix: str) -> tuple[list[str], list[ObjectInfo]]:
        """The folders and the objects directly below a prefix."""
        import obstore

        with self._errors(prefix):
            found = obstore.list_with_delimiter(self._store, prefix or None)
            return list(found["common_prefixes"]), [_info(item["path"], item) for item in found["objects"]]

    # --- writing

    def create(self, key: str, content: bytes) -> ObjectInfo | None:
        """Write a new object. None if there is one with other content. One with the same content counts as written."""
        written = self._put(key, content, "create")
        if written is not None:
            return written
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            info, existing = self.read(key)
            return info if existing == content else None
        return self._put(key, content, "create")

    def replace(self, key: str, content: bytes, expected: ObjectInfo) -> ObjectInfo:
        """Replace an object if it is still the expected one. Raises StorageConflict."""
        condition = {"e_tag": expected.etag, "version": expected.version}
        written = self._put(key, content, {name: value for name, value in condition.items() if value})
        if written is not None:
            return written
        with contextlib.suppress(FileNotFoundError):
            info, existing = self.read(key)
            if existing == content:  # the reply to an earlier attempt was lost
                return info
        raise StorageConflict(f"{self._name(key)} was replaced by another process")

    def write(self, key: str, content: bytes) -> ObjectInfo:
        """Write a new object, or replace the one that is there."""
        for _ in range(_ATTEMPTS):
            if (written := self.create(key, content)) is not None:
                return written
            with contextlib.suppress(StorageConflict, FileNotFoundError):
                return self.replace(key, content, self.info(key))
        raise StorageConflict(f"{self._name(key)} is replaced by other processes again and again")

    def overwrite(self, key: str, content: bytes) -> ObjectInfo:
        """Write without a condition: for checkpoints, which only the holder of a job's claim writes."""
        written = self._put(key, content, "overwrite")
        assert written is not None
        return written

    def upload(self, key: str, file: Path) -> None:
        """Write, or replace, an object with the content of a file. A large file is uploaded in parts, and the object
        appears when all of them are there."""
        import obstore

        if file.stat().st_size <= _SINGLE_UPLOAD_BYTES:
            self.write(key, file.read_bytes())
            return
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        with self._errors(key):
            put = obstore.put(self._store, key, file, attributes={_SHA256: digest})
        self._check_size(key, file.stat().st_size, put["e_tag"])

    def delete(self, keys: Iterable[str]) -> None:
        """Objects that do not exist count as deleted."""
        import obstore

        wanted = list(keys)
        if wanted:
            with self._errors(wanted[0]), contextlib.suppress(FileNotFoundError):
                obstore.delete(self._store, wanted)

    def copy(self, key: str, to: str) -> None:
        import obstore

        with self._errors(key):
            obstore.copy(self._store, key, to)

    def probe(self) -> StorageUnavailable | None:
        """What prevents writing; None if it works."""
        try:
            self.overwrite(_PROBE, b"")
            self.delete([_PROBE])
        except StorageUnavailable as error:
            return error
        return None

    def _put(self, key: str, content: bytes, mode: Any) -> ObjectInfo | None:
        """None if the condition does not hold."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        attributes = {_SHA256: hashlib.sha256(content).hexdigest()}
        for attempt in range(1, _WRITE_ATTEMPTS + 1):
            try:
                with self._errors(key):
                    put = obstore.put(self._store, key, content, mode=mode, attributes=attributes, use_multipart=False)
                break
            except (AlreadyExistsError, PreconditionError):
                return None
            except FileNotFoundError:  # the condition names an object that was deleted
                self._require_bucket()
                return None
            except StorageUnreachable:
                # The library does not repeat a conditional write whose reply was lost.
                if attempt == _WRITE_ATTEMPTS or mode == "overwrite":
                    raise
                time.sleep(min(_BACKOFF * 2**attempt, _MAX_BACKOFF).total_seconds())
        etag = put["e_tag"]
        if self._etag_is_md5 and (etag or "").strip('"') != hashlib.md5(content, usedforsecurity=False).hexdigest():
            self._check_size(key, len(content), etag)
            self._etag_is_md5 = False  # the service computes ETags in another way
        return ObjectInfo(key, len(content), datetime.now().astimezone(), etag, put["version"])

    def _check_size(self, key: str, size: int, etag: str | None) -> None:
        stored = self.info(key)
        if stored.size != size and stored.etag == etag:
            self.delete([key])
            raise UploadDamaged(f"{self._name(key)} has {stored.size} bytes after an upload of {size}; it was deleted")

    # --- errors

    def _require_bucket(self) -> None:
        """Raise BucketMissing. Once seen, the bucket is assumed to exist for some seconds."""
        with self._lock:
            if time.monotonic() - self._seen_at < _BUCKET_CHECK_SECONDS:
                return
        next(self.list_objects("_clerk-no-such-folder/"), None)
        with self._lock:
            self._seen_at = time.monotonic()

    def _name(self, key: str) -> str:
        return f"{self.url}/{key}"

    @contextlib.contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        """Translate the exceptions of the library, except the ones for conditions."""
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        try:
            yield
        except StorageError:
            raise
        except (AlreadyExistsError, PreconditionError):
            raise
        except (BaseError, FileNotFoundError, PermissionError, OSError) as error:
            text = str(error)
            reason = f"{self._name(key)}: {_reason(text)}"
            if any(mark in text for mark in _MISSING_BUCKET):
                raise BucketMissing(f"the bucket {self.url.bucket} does not exist ({reason})") from None
            if isinstance(error, FileNotFoundError):
                raise FileNotFoundError(2, "No such object", self._name(key)) from None
            if isinstance(error, PermissionError) or any(mark in f"{type(error).__name__} {text}" for mark in _REFUSED):
                raise StorageRefused(reason) from None
            raise StorageUnreachable(reason) from None


def _info(key: str, found: Any) -> ObjectInfo:
    return ObjectInfo(key, found["size"], found["last_modified"], found["e_tag"], found["version"])


def _reason(text: str) -> str:
    """The status, and the code and message of the service, or the cause that there was no answer, and the server. Not
    the rest: an answer can quote the request."""
    status = re.search(r"status code: (\d+ [A-Za-z ]+)", text)
    details = [match[1] for tag in ("Code", "Message") if (match := re.search(rf"<{tag}>([^<]*)</{tag}>", text))]
    if status or details:
        return ": ".join([*([status[1].strip()] if status else []), *details])[:300]
    first, _, source = text.partition("\n")
    if (failure := _HTTP_ERROR.search(first)) is not None:
        return f"{_innermost_cause(source) or failure['error']} ({failure['scheme']}{failure['host']})"[:300]
    return re.sub(r"(https?://)(?:[^\s/?@]*@)?([^\s?]*)(?:\?\S*)?", r"\1\2", first)[:300]


def _innermost_cause(source: str) -> str | None:
    """The last error that the library lists: that of the operating system, of the name resolution or of TLS."""
    if found := re.findall(r'(?:message|error): "([^"]*)"', source):
        return str(found[-1])
    if found := re.findall(r'error: ([A-Z]\w+\([^{}"]*\)),?\s*\}', source):
        return re.sub(r"[\s,]+", "", found[-1])
    return "no answer in time" if "TimedOut" in source else None
