"""Local cache of objects: a folder with a bounded number of bytes. Files that were used least recently are deleted.

A file is downloaded under a temporary name, checked and renamed, so that no name ever stands for a part of an object.
A reader holds a shared lock on a file while it uses it: locked files are not deleted. Several processes, also of
different users with the same group, can share the folder.

The limit holds approximately: each process looks at the whole folder when it first adds a file, and whenever it
has added a twentieth of the limit.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

_STALE_AFTER = 86_400.0
"""Seconds after which a temporary file belongs to a dead process."""
_SCAN_SHARE = 20
_TARGET_SHARE = 0.9
"""Share of the limit that is left after files were deleted."""

Download = Callable[[BinaryIO], None]
"""Writes the object to a file, or raises."""


@dataclass
class FileCache:
    folder: Path
    max_bytes: int
    _added: int | None = field(default=None, repr=False)
    """Bytes that this process added since it last looked at the whole folder; None if it never did."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def work_folder(self) -> Path:
        """For files that are being made or downloaded. Not part of the cache; no limit applies."""
        return self.folder / "work"

    @contextlib.contextmanager
    def open(self, name: str, download: Download) -> Iterator[Path]:
        """The file of an object, downloaded if the cache does not have it. It is not deleted before the end.

        `name` identifies a version of the object: it has to contain its ETag, unless the object never changes. It ends
        with the name of the object.
        """
        path = self._path(name)
        while True:
            try:
                file = path.open("rb")
            except FileNotFoundError:
                self._add(path, download)
                continue
            with file:
                fcntl.flock(file.fileno(), fcntl.LOCK_SH)
                if os.fstat(file.fileno()).st_nlink:  # not deleted before it was locked
                    with contextlib.suppress(PermissionError):  # another user's file
                        os.utime(file.fileno())
                    yield path
                    return

    def get(self, name: str) -> bytes | None:
        """The content of a small object; None if the cache does not have it."""
        path = self._path(name)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        with contextlib.suppress(FileNotFoundError, PermissionError):  # deleted meanwhile; another user's file
            os.utime(path)
        return content

    def put(self, name: str, content: bytes) -> None:
        def write(file: BinaryIO) -> None:
            file.write(content)

        self._add(self._path(name), write)

    def has(self, name: str) -> bool:
        return self._path(name).exists()

    def _path(self, name: str) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()
        # Programs may look at the ending of a name.
        return self.folder / "files" / digest[:2] / f"{digest}{_ending(name)}"

    def _add(self, path: Path, download: Download) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                download(file)
                file.flush()
                size = os.fstat(file.fileno()).st_size
            # Before the file has its name: otherwise it could be deleted before its reader locks it.
            self._make_room(size)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _make_room(self, size: int) -> None:
        with self._lock:
            if self._added is not None:
                self._added += size
                if self._added * _SCAN_SHARE < self.max_bytes:
                    return
            self._added = 0
        self.shrink(size)

    def shrink(self, needed: int = 0) -> None:
        """Delete the files that were used least recently, if all together and `needed` bytes exceed the limit."""
        files = []
        for path in (self.folder / "files").glob("*/*"):
            with contextlib.suppress(FileNotFoundError):  # another process deleted or renamed it
                status = path.stat()
                if path.suffix != ".part":
                    files.append((status.st_mtime, status.st_size, path))
                elif status.st_mtime < time.time() - _STALE_AFTER:
                    path.unlink()
        total = needed + sum(size for _, size, _ in files)
        if total <= self.max_bytes:
            return
        for _, size, path in sorted(files):
            if total <= self.max_bytes * _TARGET_SHARE:
                break
            if _delete_unused(path):
                total -= size


def _ending(name: str) -> str:
    match = re.search(r"\.[A-Za-z0-9]{1,8}$", name)
    return match[0] if match and match[0] != ".part" else ""


def _delete_unused(path: Path) -> bool:
    """Delete a file unless a process uses it."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    except BlockingIOError:
        return False
    except FileNotFoundError:
        pass
    return True
