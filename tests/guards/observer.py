"""Observes what this process does with the files below a folder, and finds what a power failure could destroy.

After a power failure a file has the content of its last fsync, and a folder the names of its last fsync. The observer
records both. It sees renames, links, removals and opened files by Python's audit events, and fsync, for which there is
no such event, by wrapping `os.fsync`. The content is compared with that of the last fsync, so that writes by SQLite,
which Python does not see, count as well.

A name that contains `.part` is temporary: it may name anything at any time.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

APPENDED = (".reading.jsonl", "second-names.txt")
"""Files of lines that grow at their end. Their readers ignore an incomplete last line."""
_WRITABLE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
State = str | frozenset[tuple[str, int]]


class Observer:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.events: list[tuple[str, Path]] = []
        """The operations in their order: `open`, `rename`, `link`, `symlink`, `remove` or `fsync`, and the path."""
        self.problems: list[str] = []
        self._durable: dict[int, State] = {}
        self._removed: list[Path] = []
        self._busy = False
        for path in (self.root, *self.root.rglob("*")):
            if not path.is_symlink():
                self._durable[path.stat().st_ino] = _state(path)

    def see(self, event: str, arguments: tuple[object, ...]) -> None:
        """Handle an audit event. The operation has not been carried out yet."""
        if self._busy or event not in _HANDLERS:
            return
        self._busy = True
        try:
            _HANDLERS[event](self, *arguments)
        finally:
            self._busy = False

    def synced(self, descriptor: int) -> None:
        number = os.fstat(descriptor).st_ino
        self._busy = True
        try:
            for path in (self.root, *self.root.rglob("*")):
                if not path.is_symlink() and path.stat().st_ino == number:
                    self._durable[number] = _state(path)
                    self.events.append(("fsync", path))
                    break
        finally:
            self._busy = False

    def _opened(self, name: object, mode: object, flags: int) -> None:
        path = self._final(name)
        if path is None or not flags & _WRITABLE:
            return
        self.events.append(("open", path))
        if not (flags & os.O_APPEND and path.name in APPENDED):
            self._problem(path, "was opened for writing under its final name")

    def _opened_by_sqlite(self, database: object) -> None:
        parts = urlsplit(str(database))
        path = self._final(unquote(parts.path))
        if path is not None and database != ":memory:" and "mode=ro" not in parts.query:
            self._problem(path, "was opened by SQLite for writing under its final name")

    def _renamed(self, source: object, target: object, *_: object) -> None:
        path = self._final(target)
        if path is None:
            return
        self.events.append(("rename", path))
        self._forget(path)
        if not self._is_durable(Path(str(source))):
            self._problem(path, "was renamed before its content was synced")

    def _linked(self, source: object, target: object, *_: object) -> None:
        path = self._final(target)
        if path is not None:
            self.events.append(("link", path))

    def _symlinked(self, source: object, target: object, *_: object) -> None:
        path = self._final(target)
        if path is not None:
            self.events.append(("symlink", path))

    def _removed_file(self, name: object, *_: object) -> None:
        self._forget(Path(str(name)))
        path = self._final(name)
        if path is not None and os.path.lexists(path):
            self.events.append(("remove", path))
            self._removed.append(path)

    def finish(self) -> None:
        """Compare what is visible now with what is durable."""
        self._busy = True
        for path in self._removed:
            if os.path.lexists(path):
                self._problem(path, "was removed before its replacement was in place")
        for path in sorted(self.root.rglob("*")):
            if self._final(path) is None:
                continue
            names = self._durable.get(path.parent.stat().st_ino, frozenset())
            if (path.name, path.lstat().st_ino) not in names:
                self._problem(path, "is new in a folder that was not synced")
            if path.is_file() and not path.is_symlink() and not self._is_durable(path):
                self._problem(path, "was not synced")

    def _is_durable(self, path: Path) -> bool:
        if path.is_symlink():
            target = path.resolve()
            return (target.name, target.stat().st_ino) in self._durable.get(target.parent.stat().st_ino, frozenset())
        files = [path, *path.rglob("*")] if path.is_dir() else [path]
        return all(self._durable.get(file.stat().st_ino) == _state(file) for file in files)

    def _forget(self, path: Path) -> None:
        """The number of a deleted file may be given to the next one."""
        if path.is_file() and not path.is_symlink() and path.stat().st_nlink == 1:
            self._durable.pop(path.stat().st_ino, None)

    def _final(self, name: object) -> Path | None:
        """The path, if it is below the folder and not temporary."""
        if not isinstance(name, str | os.PathLike) or isinstance(name, bytes):
            return None
        path = Path(os.path.abspath(name))  # noqa: PTH100 (resolve would follow a symbolic link)
        if not path.is_relative_to(self.root) or any(".part" in part for part in path.relative_to(self.root).parts):
            return None
        return path

    def _problem(self, path: Path, what: str) -> None:
        self.problems.append(f"{path.relative_to(self.root)} {what}")


_HANDLERS: dict[str, Callable[..., None]] = {
    "open": Observer._opened,
    "sqlite3.connect": Observer._opened_by_sqlite,
    "os.rename": Observer._renamed,
    "os.link": Observer._linked,
    "os.symlink": Observer._symlinked,
    "os.remove": Observer._removed_file,
}
_active: Observer | None = None
_installed = False


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _active is not None:
        _active.see(event, arguments)


def _state(path: Path) -> State:
    if path.is_dir():
        with os.scandir(path) as entries:
            return frozenset((entry.name, entry.stat(follow_symlinks=False).st_ino) for entry in entries)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def observe(root: Path) -> Iterator[Observer]:
    """Observe the block. Everything below `root` counts as durable at its start."""
    global _active, _installed
    if not _installed:
        sys.addaudithook(_audit)  # cannot be removed
        _installed = True
    observer = Observer(root)
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        sync(descriptor)
        observer.synced(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        _active = observer
        try:
            yield observer
        finally:
            _active = None
    observer.finish()


@contextmanager
def survives_power_failure(root: Path) -> Iterator[Observer]:
    """Fail if a power failure during or after the block could leave an incomplete file, or lose a file."""
    with observe(root) as observer:
        yield observer
    assert not observer.problems, "\n".join(observer.problems)
