from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from clerk.documents.storage import SiteStorage
from clerk.object_storage.path import StoragePath
from clerk.plugins import manager
from tests.archive.helpers import add_site
from tests.publish.helpers import Town


@pytest.fixture
def plugins_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Of two versions of a file that are equally long and written within a second, Python would run the first again.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder = tmp_path / "plugins"
    folder.mkdir()
    return folder


@pytest.fixture
def town(
    database: str,
    connection: psycopg.Connection,
    tmp_path: Path,
    plugins_dir: Path,
    storage_root: StoragePath,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Town]:
    """A site, with the environment of a worker."""
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("CLERK_PLUGINS_DIR", str(plugins_dir))
    add_site(connection)
    manager._load.cache_clear()
    yield Town(connection, SiteStorage(storage_root, "springfield"), tmp_path)
    manager._load.cache_clear()
