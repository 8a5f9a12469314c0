from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.cli.conftest import clerk_command as clerk_command
from tests.conftest import Url
from tests.legacy import legacy_redis
from tests.legacy.legacy_redis import LegacyRq
from tests.legacy.legacy_system import LegacyDisk


@pytest.fixture
def legacy_disk(tmp_path: Path) -> LegacyDisk:
    return LegacyDisk(tmp_path / "storage")


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may read, except what a test protects."""
    folder = Path(tempfile.mkdtemp(prefix="clerk-legacy-"))
    folder.chmod(0o755)
    yield folder
    for path, folders, _ in os.walk(folder):
        for name in folders:
            (Path(path) / name).chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def legacy_settings(database: Url, legacy_disk: LegacyDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the commands."""
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("STORAGE_DIR", str(legacy_disk.root))


@pytest.fixture(scope="session")
def _redis_url() -> Iterator[Url]:
    with legacy_redis.running() as url:
        yield url


@pytest.fixture
def legacy_rq(_redis_url: Url, monkeypatch: pytest.MonkeyPatch) -> Iterator[LegacyRq]:
    """An empty Redis at REDIS_URL."""
    monkeypatch.setenv("REDIS_URL", _redis_url)
    with contextlib.closing(Redis.from_url(_redis_url)) as connection:
        connection.flushall()
        yield LegacyRq(connection)
