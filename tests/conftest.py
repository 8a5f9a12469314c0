"""Real Postgres for every test: one server per session, one migrated template, one clone per test.

The server is CLERK_TEST_DATABASE_URL's if that is set, else a container's if a Docker engine answers, else the
embedded one, without fsync, since nothing here has to survive a power cut.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
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

Url = str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run what takes minutes")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A developer's own DATABASE_URL or .env must never reach a test."""
    for setting in SETTINGS:
        monkeypatch.delenv(setting.name, raising=False)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def folder() -> SqlFolder:
    return default_folder()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Url]:
    """A URL whose user may create databases and roles."""
    if given := os.environ.get("CLERK_TEST_DATABASE_URL"):
        yield given
        return
    if _docker_answers():
        from testcontainers.postgres import PostgresContainer

        with PostgresContainer("postgres:18", driver=None) as container:
            yield container.get_connection_url()
        return
    with running(Server(tmp_path_factory.mktemp("server") / "postgres", options=QUICK)) as url:
        yield url


QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextlib.contextmanager
def running(server: Server) -> Iterator[Url]:
    """A server of our own for the length of a `with` block; just that one is stopped."""
    server.initialise()
    server.start()
    try:
        yield server.url("postgres")
    finally:
        server.stop()


def _docker_answers() -> bool:
    import docker

    # An engine that does not answer leaves docker's half-open socket to the garbage collector, and its warning
    # would be blamed on whichever test runs then.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            with contextlib.closing(docker.from_env()) as client:
                client.ping()
            answers = True
        except docker.errors.DockerException:
            answers = False
        gc.collect()
    return answers


def named(url: Url, database: str) -> Url:
    """The same server, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


_numbers = itertools.count(1)


class Databases:
    """Makes databases on one server, and drops them."""

    def __init__(self, url: Url) -> None:
        self.url = url
        self.made: list[str] = []

    def create(self, template: str = "template0") -> Url:
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self._run(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
        self.made.append(name)
        return named(self.url, name)

    def drop_all(self) -> None:
        for name in self.made:
            self._run(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
        self.made.clear()

    def _run(self, command: sql.Composed) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(command)


@pytest.fixture(scope="session")
def template(server: Url, folder: SqlFolder) -> Iterator[str]:
    databases = Databases(server)
    url = databases.create()
    with connect_to(url) as connection:
        Migrator(connection, folder).up()
    yield databases.made[0]
    databases.drop_all()


@pytest.fixture
def new_database(server: Url) -> Iterator[Callable[[], Url]]:
    """Call it for an empty database."""
    databases = Databases(server)
    yield databases.create
    databases.drop_all()


@pytest.fixture
def database(server: Url, template: str) -> Iterator[Url]:
    """The URL of a migrated database of the test's own."""
    databases = Databases(server)
    yield databases.create(template)
    databases.drop_all()


@pytest.fixture
def connection(database: Url) -> Iterator[psycopg.Connection]:
    with connect_to(database) as connection:
        yield connection
