"""Listing of objects: what exists in some folders of a bucket at one moment."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from clerk.object_storage.bucket import ObjectInfo


class Listing:
    """The objects below some folders at one moment, kept up to date with what is written through it."""

    def __init__(self, folders: Iterable[str], objects: Iterable[ObjectInfo]) -> None:
        self.prefixes = tuple(f"{folder}/" if folder else "" for folder in folders)
        self.objects = {info.key: info for info in objects}
        self._lock = threading.Lock()
        self._names: dict[str, dict[str, bool]] | None = None

    def covers(self, key: str) -> bool:
        return f"{key}/".startswith(self.prefixes)

    def names(self, folder: str) -> dict[str, bool]:
        """Name → whether it is a folder, of what is directly below a folder."""
        with self._lock:
            if self._names is None:
                self._names = {}
                for key in self.objects:
                    is_folder = False
                    while True:
                        parent, _, name = key.rpartition("/")
                        names = self._names.setdefault(parent, {})
                        if name in names:
                            break
                        names[name] = is_folder
                        if not parent:
                            break
                        key, is_folder = parent, True
            return self._names.get(folder, {})

    def record(self, key: str, info: ObjectInfo | None) -> None:
        with self._lock:
            if info is None:
                self.objects.pop(key, None)
            else:
                self.objects[key] = info
            self._names = None
