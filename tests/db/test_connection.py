"""Errors of the database become one sentence with a remedy, and never show a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.errors import EXIT_FAILURE, EXIT_UNKNOWN, ClerkError, DatabaseRefused, DatabaseUnreachable
from tests.conftest import QUICK, Url
from tests.db.conftest import copy_data_directory


@pytest.fixture(scope="module")
def strict_server(data_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that asks `guest` for a password and has four connections to give."""
    server = Server(
        tmp_path_factory.mktemp("strict") / "postgres",
        options={**QUICK, "max_connections": "4", "superuser_reserved_connections": "1", "max_wal_senders": "0"},
    )
    copy_data_directory(data_directory, server.data)
    hba = server.data / "pg_hba.conf"
    hba.write_text("local all guest scram-sha-256\nlocal all stranger reject\n" + hba.read_text())
    server.start()
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("create role guest login password 'right'; create role stranger login")
    yield server
    server.stop()


def url_for(server: Server, user: str) -> Url:
    return server.url("postgres").replace("//clerk@", f"//{user}@")


def with_options(url: Url, options: str) -> Url:
    return f"{url}{'&' if '?' in url else '?'}options={options}"


def sentence(url: Url) -> ClerkError:
    with pytest.raises(ClerkError) as caught, connect_to(url):
        pass
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("user", "words", "remedy"),
    [
        ("guest:s3cret", "password authentication failed", "check user and password"),
        ("guest", "no password supplied", "check user and password"),
        ("nobody_here", 'role "nobody_here" does not exist', "check user and password"),
        ("stranger", "pg_hba.conf rejects connection", "check user and password"),
    ],
)
def test_who_is_not_let_in(strict_server: Server, user: str, words: str, remedy: str) -> None:
    error = sentence(url_for(strict_server, user))
    assert words in error.what
    assert error.remedy.startswith(remedy)
    assert error.exit_code == EXIT_UNKNOWN
    assert "s3cret" not in str(error)


def test_the_right_password_is_let_in(strict_server: Server) -> None:
    with connect_to(url_for(strict_server, "guest:right")) as connection:
        assert connection.info.user == "guest"


def test_a_database_that_does_not_exist(strict_server: Server) -> None:
    error = sentence(strict_server.url("nowhere"))
    assert 'database "nowhere" does not exist' in error.what
    assert error.remedy.startswith("make it with createdb")


def test_a_server_without_connections_left(strict_server: Server) -> None:
    url = url_for(strict_server, "guest:right")
    held = [psycopg.connect(url) for _ in range(3)]
    error = sentence(url)
    assert error.remedy.startswith("close some connections")
    assert error.exit_code == EXIT_UNKNOWN
    for connection in held:
        connection.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:s3cret@localhost:1/name",
        "postgresql://user:s3cret@/name?host=/nowhere/at/all",
        "postgresql://user@localhost:1/name?password=s3cret",
    ],
)
def test_nobody_answers(url: str) -> None:
    error = sentence(url)
    assert isinstance(error, DatabaseUnreachable)
    assert "cannot be reached" in error.what
    assert "start it or mend DATABASE_URL" in error.remedy
    assert "s3cret" not in str(error)


def test_a_url_that_is_none_is_not_repeated() -> None:
    error = sentence("postgresql://user:s3%zzcret@localhost/name")
    assert error.what == "postgresql://user:***@localhost/name is not a URL that Postgres understands"


def test_a_connection_that_is_lost(database: Url) -> None:
    with (
        pytest.raises(DatabaseUnreachable, match="terminating connection due to administrator command"),
        connect_to(database) as connection,
    ):
        connection.execute("select pg_terminate_backend(pg_backend_pid())")


def test_a_database_that_can_only_be_read(database: Url) -> None:
    read_only = with_options(database, "-cdefault_transaction_read_only%3Don")
    with pytest.raises(DatabaseRefused, match="can only be read") as caught, connect_to(read_only) as connection:
        connection.execute("create table x (id int)")
    assert caught.value.exit_code == EXIT_FAILURE


def test_another_search_path_does_not_matter(database: Url) -> None:
    with connect_to(with_options(database, "-csearch_path%3Dpg_catalog")) as connection:
        assert connection.execute("select count(*) from sites").fetchone() == (0,)


def test_bugs_keep_their_traceback(database: Url) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable), connect_to(database) as connection:
        connection.execute("select * from nowhere")
