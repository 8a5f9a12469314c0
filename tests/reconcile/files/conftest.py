"""A processed site, created once; each test gets a copy of its database, its storage and its source."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.documents.storage import SiteStorage
from clerk.object_storage.path import ObjectPath, StoragePath
from clerk.plugins import manager
from tests.archive.helpers import add_site
from tests.conftest import Databases, Url
from tests.reconcile.files.site_fixture import StoredSite, process_documents
from tests.s3 import upload_storage


@dataclass(frozen=True)
class ProcessedSite:
    """Template of the database and the folder that each test copies."""

    database: str
    folder: Path


def _set_environment(monkeypatch: pytest.MonkeyPatch, url: Url) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    manager._load.cache_clear()


def _open_site(connection: psycopg.Connection, folder: Path, root: StoragePath) -> StoredSite:
    site = StoredSite(connection, SiteStorage(root, "springfield"), folder)
    site.set_source(folder / "source")
    return site


@pytest.fixture(scope="session")
def processed_site(server: Url, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessedSite]:
    databases = Databases(server)
    url, folder = databases.create(template), tmp_path_factory.mktemp("town")
    with pytest.MonkeyPatch.context() as monkeypatch:
        _set_environment(monkeypatch, url)
        monkeypatch.setenv("STORAGE_DIR", str(folder / "storage"))
        with connect_to(url) as connection:
            add_site(connection)
            process_documents(_open_site(connection, folder, folder / "storage"))
    yield ProcessedSite(databases.created[0], folder)
    databases.drop_all()


@pytest.fixture
def databases(server: Url) -> Iterator[Databases]:
    databases = Databases(server)
    yield databases
    databases.drop_all()


@pytest.fixture
def site(
    processed_site: ProcessedSite,
    databases: Databases,
    tmp_path: Path,
    storage_root: StoragePath,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[StoredSite]:
    url = databases.create(processed_site.database)
    shutil.copytree(processed_site.folder / "source", tmp_path / "source")
    if isinstance(storage_root, ObjectPath):
        upload_storage(processed_site.folder / "storage", storage_root)
    else:
        shutil.copytree(processed_site.folder / "storage", storage_root, symlinks=True)
    _set_environment(monkeypatch, url)
    with connect_to(url) as connection:
        yield _open_site(connection, tmp_path, storage_root)
    manager._load.cache_clear()
