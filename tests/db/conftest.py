from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server, bundled
from clerk.db.migrations.sqlfiles import SqlFolder
from tests.conftest import NO_FSYNC, Url, running


@pytest.fixture
def empty(new_database: Callable[[], Url]) -> Iterator[psycopg.Connection]:
    """A connection to an empty database."""
    with connect_to(new_database()) as connection:
        yield connection


class SqlFolderBuilder:
    """A small `sql/` folder for one test: the files that every such folder needs, and no migration yet."""

    def __init__(self, root: Path, source: SqlFolder) -> None:
        self.root = root
        for name in (
            "migrator_tables.sql",
            "grants.sql",
            "replaced_triggers.sql",
            "schema_query.sql",
            "procrastinate.down.sql",
        ):
            self.write(name, source.read(name))

    @property
    def folder(self) -> SqlFolder:
        """The folder with its current files (SqlFolder caches what it has read)."""
        return SqlFolder(self.root)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def migration(self, title: str, up: str, down: str = "") -> str:
        name = f"{self.folder.newest + 1:04}_{title}"
        self.write(f"migrations/{name}.up.sql", up)
        self.write(f"migrations/{name}.down.sql", down)
        return name


@pytest.fixture
def sql_folder(tmp_path: Path, folder: SqlFolder) -> SqlFolderBuilder:
    return SqlFolderBuilder(tmp_path / "sql", folder)


def binaries_of(major: int) -> Path | None:
    """The folder with the binaries of this major version of Postgres: from the wheel, Debian or Homebrew."""
    candidates = [
        *bundled(18).parents[1].glob("pginstall*/bin"),
        Path(f"/usr/lib/postgresql/{major}/bin"),
        *(Path(prefix) / f"opt/postgresql@{major}/bin" for prefix in ("/opt/homebrew", "/usr/local")),
    ]
    for candidate in candidates:
        if (candidate / "initdb").exists() and Server(Path(), binaries=candidate).version == major:
            return candidate
    return None


def require_binaries(major: int) -> Path:
    binaries = binaries_of(major)
    if binaries is None:
        reason = f"Postgres {major} is not installed; bin/setup --for-tests installs an older Postgres"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return binaries


OLDER = (15, 16)


@pytest.fixture(scope="session", params=OLDER, ids=lambda major: f"postgres-{major}")
def older_server(request: pytest.FixtureRequest, server_folder: Path) -> Iterator[Url]:
    binaries = require_binaries(request.param)
    options = {**NO_FSYNC, "max_wal_size": "256MB"}
    with running(Server(server_folder / f"postgres-{request.param}", binaries=binaries, options=options)) as url:
        yield url


@pytest.fixture(scope="session")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory made by initdb and never started. Copying it is faster than another initdb."""
    server = Server(tmp_path_factory.mktemp("initdb") / "postgres")
    server.initialise()
    return server.data


def copy_data_directory(source: Path, target: Path) -> None:
    """Copy with owners, which shutil does not keep: for root the server runs as another user."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, symlinks=True)
    owner = source.stat()
    for path in (target, *target.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
