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
from tests.legacy.legacy_redis import OldRq
from tests.legacy.legacy_system import OldDisk


@pytest.fixture
def old_disk(tmp_path: Path) -> OldDisk:
    return OldDisk(tmp_path / "storage")


@pytest.fixture
def for_all() -> Iterator[Path]:
    """A folder that everybody may look into, up to what a test closes."""
    folder = Path(tempfile.mkdtemp(prefix="clerk-legacy-"))
    folder.chmod(0o755)
    yield folder
    for path, folders, _ in os.walk(folder):
        for name in folders:
            (Path(path) / name).chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def settled(database: Url, old_disk: OldDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the commands need to know."""
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("STORAGE_DIR", str(old_disk.root))


@pytest.fixture(scope="session")
def _one_redis() -> Iterator[Url]:
    with legacy_redis.running() as url:
        yield url


@pytest.fixture
def old_rq(_one_redis: Url, monkeypatch: pytest.MonkeyPatch) -> Iterator[OldRq]:
    """An empty Redis, which REDIS_URL names."""
    monkeypatch.setenv("REDIS_URL", _one_redis)
    with contextlib.closing(Redis.from_url(_one_redis)) as connection:
        connection.flushall()
        yield OldRq(connection)
