"""A real Postgres database for every test: one server per session, one migrated template, one clone per test.

The server is the one of CLERK_TEST_DATABASE_URL if that is set, else a container if a Docker engine runs, else an
embedded server without fsync, in memory if there is room: on a disk most of a short test's time goes into the files
of its database.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from clerk.config import SETTINGS
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder, default_folder
from tests.s3 import bucket_url, parametrize_storage, s3_endpoint, storage_root  # noqa: F401 (fixtures)

Url = str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run tests that take minutes")
    parser.addoption("--update-schemas", action="store_true", help="widen docs/json by what the commands print")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_storage(metafunc)


@pytest.fixture(autouse=True)
def _no_settings_from_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep a developer's own DATABASE_URL, .env and collector out of the tests."""
    for name in [*(setting.name for setting in SETTINGS), *(name for name in os.environ if name.startswith("OTEL_"))]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def folder() -> SqlFolder:
    return default_folder()


_MEMORY = Path("/dev/shm")  # a tmpfs on Linux; 64 MB in a container by default
_MEMORY_NEEDED = 2 * 1024**3


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _MEMORY_NEEDED:
        yield tmp_path_factory.mktemp("server")
        return
    for left_behind in _MEMORY.glob("clerk-tests-*-*"):
        if not Path("/proc", left_behind.name.split("-")[2]).exists():
            shutil.rmtree(left_behind, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"clerk-tests-{os.getpid()}-", dir=_MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def server(server_folder: Path) -> Iterator[Url]:
    """The URL of a server whose user may create databases and roles."""
    if given := os.environ.get("CLERK_TEST_DATABASE_URL"):
        yield given
        return
    if _docker_runs():
        from testcontainers.postgres import PostgresContainer

        with PostgresContainer("postgres:18", driver=None) as container:
            yield container.get_connection_url()
        return
    with running(Server(server_folder / "postgres", options={**NO_FSYNC, "max_wal_size": "256MB"})) as url:
        yield url


NO_FSYNC = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextlib.contextmanager
def running(server: Server) -> Iterator[Url]:
    """Run this server for the duration of a `with` block."""
    server.initialise()
    server.start()
    try:
        yield server.url("postgres")
    finally:
        server.stop()


def _docker_runs() -> bool:
    import docker

    # Without an engine, docker leaves a half-open socket to the garbage collector, and pytest would attribute its
    # warning to an arbitrary test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            with contextlib.closing(docker.from_env()) as client:
                client.ping()
            runs = True
        except docker.errors.DockerException:
            runs = False
        gc.collect()
    return runs


def with_database(url: Url, database: str) -> Url:
    """The URL of another database on the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


_numbers = itertools.count(1)


class Databases:
    """Creates databases on one server, and drops them."""

    def __init__(self, url: Url) -> None:
        self.url = url
        self.created: list[str] = []

    def create(self, template: str = "template0") -> Url:
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self._run(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
        self.created.append(name)
        return with_database(self.url, name)

    def drop_all(self) -> None:
        for name in self.created:
            self._run(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
        self.created.clear()

    def _run(self, command: sql.Composed) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(command)


@pytest.fixture(scope="session")
def template(server: Url, folder: SqlFolder) -> Iterator[str]:
    databases = Databases(server)
    url = databases.create()
    with connect_to(url) as connection:
        Migrator(connection, folder).up()
    yield databases.created[0]
    databases.drop_all()


@pytest.fixture
def new_database(server: Url) -> Iterator[Callable[[], Url]]:
    """A function that creates an empty database and returns its URL."""
    databases = Databases(server)
    yield databases.create
    databases.drop_all()


@pytest.fixture
def database(server: Url, template: str) -> Iterator[Url]:
    """The URL of a migrated database that only this test uses."""
    databases = Databases(server)
    yield databases.create(template)
    databases.drop_all()


@pytest.fixture
def connection(database: Url) -> Iterator[psycopg.Connection]:
    with connect_to(database) as connection:
        yield connection
