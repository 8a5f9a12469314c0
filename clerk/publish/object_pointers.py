"""Pointers to current versions in a bucket: the object `_current/{subdomain}` contains the name of a version.

A pointer is switched by one conditional write. Readers ask for all pointers with one listing per thousand sites, at
most once a second, and read those that changed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from clerk.documents.sanitize import is_subdomain
from clerk.errors import StorageConflict
from clerk.object_storage.path import ObjectPath, in_parallel

FOLDER = "_current"
_MAX_AGE = 1.0


def switch(pointer: ObjectPath, version: str, before_switch: Callable[[], None] | None = None) -> None:
    """Make a version the current one. Raises StorageConflict if another process switches at the same time.

    `before_switch` may raise to keep the current version. It is called after the current version was read: a pointer
    that another process has switched since is not overwritten.
    """
    try:
        existing = pointer.info()
        current = pointer.read_text()
    except FileNotFoundError:
        existing, current = None, None
    if current == version:
        return
    if before_switch is not None:
        before_switch()
    try:
        if existing is not None:
            pointer.replace_content(version.encode(), existing)
        elif not pointer.create(version.encode()):
            raise StorageConflict(f"{pointer} was created by another process")
    finally:
        _known.pop(pointer.parent.parent, None)


@dataclass
class _Pointers:
    lock: threading.Lock = field(default_factory=threading.Lock)
    read_at: float = float("-inf")
    versions: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Subdomain → identity of the pointer, and its content."""


_known: dict[ObjectPath, _Pointers] = {}


def read_all(root: ObjectPath, site: str | None = None) -> dict[str, str]:
    """Subdomain → name of the current version, of all sites or of one, sorted."""
    pointers = _known.setdefault(root, _Pointers())
    with pointers.lock:
        if time.monotonic() - pointers.read_at > _MAX_AGE:
            pointers.versions = _refresh(root, pointers.versions)
            pointers.read_at = time.monotonic()
        versions = pointers.versions
    return {name: version for name, (_, version) in versions.items() if site in (None, name)}


def _refresh(root: ObjectPath, known: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    folder = root / FOLDER
    listed = {info.key.rpartition("/")[2]: info.identity for info in folder.bucket.list_objects(f"{folder.key}/")}
    versions = {name: known[name] for name, identity in listed.items() if known.get(name, ("",))[0] == identity}

    def read_one(name: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            versions[name] = (listed[name], (folder / name).read_text())

    in_parallel(read_one, [name for name in listed if name not in versions and is_subdomain(name)])
    return dict(sorted(versions.items()))
