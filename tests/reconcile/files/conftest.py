"""The finished town is made once; each test gets a copy of its database, its storage and its source."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.documents.storage import SiteStorage
from clerk.plugins import manager
from tests.archive.helpers import add_site
from tests.conftest import Databases, Url
from tests.reconcile.files.site_fixture import World, fill


@dataclass(frozen=True)
class Original:
    database: str
    folder: Path


def _enter(monkeypatch: pytest.MonkeyPatch, url: Url, folder: Path) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("STORAGE_DIR", str(folder / "storage"))
    manager._load.cache_clear()


def _world(connection: psycopg.Connection, folder: Path) -> World:
    world = World(connection, SiteStorage(folder / "storage", "springfield"), folder)
    world.point_at(folder / "source")
    return world


@pytest.fixture(scope="session")
def original(server: Url, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Original]:
    databases = Databases(server)
    url, folder = databases.create(template), tmp_path_factory.mktemp("town")
    with pytest.MonkeyPatch.context() as monkeypatch:
        _enter(monkeypatch, url, folder)
        with connect_to(url) as connection:
            add_site(connection)
            fill(_world(connection, folder))
    yield Original(databases.created[0], folder)
    databases.drop_all()


@pytest.fixture
def databases(server: Url) -> Iterator[Databases]:
    databases = Databases(server)
    yield databases
    databases.drop_all()


@pytest.fixture
def world(original: Original, databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    url, folder = databases.create(original.database), tmp_path / "town"
    shutil.copytree(original.folder, folder, symlinks=True)
    _enter(monkeypatch, url, folder)
    with connect_to(url) as connection:
        yield _world(connection, folder)
    manager._load.cache_clear()
