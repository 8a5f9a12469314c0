"""The local cache: bounded, without parts of objects, and no file disappears while it is used."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from clerk.errors import StorageUnreachable
from clerk.object_storage.cache import FileCache
from clerk.object_storage.path import ObjectPath


@pytest.fixture
def cache(tmp_path: Path) -> FileCache:
    return FileCache(tmp_path / "cache", 1000)


def _content(size: int) -> Callable[[BinaryIO], None]:
    def download(file: BinaryIO) -> None:
        file.write(b"x" * size)

    return download


def _total(cache: FileCache) -> int:
    return sum(path.stat().st_size for path in cache.folder.rglob("*") if path.is_file())


def test_files_that_were_used_least_recently_are_deleted(cache: FileCache) -> None:
    for number in range(9):
        with cache.open(f"{number}", _content(100)) as path:
            os.utime(path, (number, number))
    with cache.open("0", _content(0)):  # used again
        pass
    for number in range(9, 12):
        with cache.open(f"{number}", _content(100)):
            pass
    assert _total(cache) <= 1000
    assert cache.has("0")
    assert not cache.has("1")
    assert cache.has("11")


def test_a_file_in_use_is_not_deleted(cache: FileCache) -> None:
    with cache.open("used", _content(600)) as used:
        os.utime(used, (1, 1))
        with cache.open("other", _content(600)):
            assert used.stat().st_size == 600
    with cache.open("third", _content(100)):
        pass
    assert not cache.has("used")


def test_an_object_larger_than_the_cache_can_be_used(cache: FileCache) -> None:
    with cache.open("large", _content(5000)) as path:
        assert path.stat().st_size == 5000
    with cache.open("small", _content(100)):
        pass
    assert not cache.has("large")


def test_an_interrupted_download_leaves_nothing(cache: FileCache) -> None:
    def fail(file: BinaryIO) -> None:
        file.write(b"one half")
        raise StorageUnreachable("the connection was lost")

    with pytest.raises(StorageUnreachable), cache.open("a", fail):
        pass
    assert _total(cache) == 0
    assert not cache.has("a")


def test_a_copy_is_used_again_until_the_object_changes(root: ObjectPath) -> None:
    path = root / "meetings.db"
    path.write(b"one")
    with path.local_copy() as first:
        assert first.read_bytes() == b"one"
    with path.local_copy() as second:
        assert second == first
    path.write(b"two")
    with path.local_copy() as third:
        assert third.read_bytes() == b"two"


def test_an_object_whose_content_differs_from_its_hash_is_not_used(root: ObjectPath) -> None:
    import obstore

    path = root / "a"
    path.write(b"content")
    altered = {"clerk-sha256": "0" * 64}
    obstore.put(path.bucket._store, path.key, b"forgery", attributes=altered)
    with pytest.raises(StorageUnreachable, match="differ"), path.local_copy():
        pass
