"""Database errors are translated to one sentence with a remedy, without passwords."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from clerk.db import connection as database_connection
from clerk.db.connection import connect_to, wait_until_ready
from clerk.db.embedded.server import Server
from clerk.errors import (
    EXIT_FAILURE,
    EXIT_UNKNOWN,
    ClerkError,
    DatabaseNotReady,
    DatabaseRefused,
    DatabaseUnreachable,
)
from tests.conftest import NO_FSYNC, Url
from tests.db.conftest import copy_data_directory
from tests.helpers import until


@pytest.fixture(scope="module")
def strict_server(data_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with four connections, on which `guest` needs a password and `rejected` may not connect."""
    server = Server(
        tmp_path_factory.mktemp("strict") / "postgres",
        options={**NO_FSYNC, "max_connections": "4", "superuser_reserved_connections": "1", "max_wal_senders": "0"},
    )
    copy_data_directory(data_directory, server.data)
    server.start()
    # After the start, which writes this file.
    hba = server.data / "pg_hba.conf"
    hba.write_text("local all guest scram-sha-256\nlocal all rejected reject\n" + hba.read_text())
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("create role guest login password 'right'; create role rejected login")
        loaded = connection.execute("select pg_conf_load_time()").fetchone()
        connection.execute("select pg_reload_conf()")
        until(lambda: connection.execute("select pg_conf_load_time()").fetchone() != loaded)
    yield server
    server.stop()


def url_for(server: Server, user: str) -> Url:
    return server.url("postgres").replace("//clerk@", f"//{user}@")


def with_options(url: Url, options: str) -> Url:
    return f"{url}{'&' if '?' in url else '?'}options={options}"


def connection_error(url: Url) -> ClerkError:
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
        ("rejected", "pg_hba.conf rejects connection", "check user and password"),
    ],
)
def test_refused_users(strict_server: Server, user: str, words: str, remedy: str) -> None:
    error = connection_error(url_for(strict_server, user))
    assert words in error.what
    assert error.remedy.startswith(remedy)
    assert error.exit_code == EXIT_UNKNOWN
    assert "s3cret" not in str(error)


def test_the_right_password_is_accepted(strict_server: Server) -> None:
    with connect_to(url_for(strict_server, "guest:right")) as connection:
        assert connection.info.user == "guest"


def test_a_database_that_does_not_exist(strict_server: Server) -> None:
    error = connection_error(strict_server.url("nowhere"))
    assert 'database "nowhere" does not exist' in error.what
    assert error.remedy.startswith("create it with createdb")


def test_a_server_without_free_connections(strict_server: Server) -> None:
    url = url_for(strict_server, "guest:right")
    with contextlib.ExitStack() as held:

        def hold_one() -> bool:
            try:
                return bool(held.enter_context(psycopg.connect(url)))
            except psycopg.OperationalError:
                return False  # A session of an earlier test is still ending.

        for _ in range(3):
            until(hold_one)
        error = connection_error(url)
    assert error.remedy.startswith("close some connections")
    assert error.exit_code == EXIT_UNKNOWN


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:s3cret@localhost:1/name",
        "postgresql://user:s3cret@/name?host=/nowhere/at/all",
        "postgresql://user@localhost:1/name?password=s3cret",
    ],
)
def test_an_unreachable_server(url: str) -> None:
    error = connection_error(url)
    assert isinstance(error, DatabaseUnreachable)
    assert "cannot be reached" in error.what
    assert "start it or correct DATABASE_URL" in error.remedy
    assert "s3cret" not in str(error)


def test_an_invalid_url_is_shown_without_its_password() -> None:
    error = connection_error("postgresql://user:s3%zzcret@localhost/name")
    assert error.what == "postgresql://user:***@localhost/name is not a Postgres URL"


def test_a_lost_connection(database: Url) -> None:
    with (
        pytest.raises(DatabaseUnreachable, match="terminating connection due to administrator command"),
        connect_to(database) as connection,
    ):
        connection.execute("select pg_terminate_backend(pg_backend_pid())")


def test_a_read_only_database(database: Url) -> None:
    read_only = with_options(database, "-cdefault_transaction_read_only%3Don")
    with pytest.raises(DatabaseRefused, match="is read-only") as caught, connect_to(read_only) as connection:
        connection.execute("create table x (id int)")
    assert caught.value.exit_code == EXIT_FAILURE


def test_several_servers_of_which_none_accepts_writes(database: Url) -> None:
    """The message has what each of them said."""
    parameters = conninfo_to_dict(with_options(database, "-cdefault_transaction_read_only%3Don"))
    hosts = f"/nowhere,{parameters.pop('host')}"
    error = connection_error(make_conninfo("", host=hosts, target_session_attrs="read-write", **parameters))
    assert isinstance(error, DatabaseNotReady)
    assert "No such file or directory; " in error.what
    assert "session is read-only" in error.what
    assert error.remedy.startswith("during a failover, try again in a minute")
    assert error.exit_code == EXIT_UNKNOWN


def _refuse(listener: socket.socket, answers: list[tuple[str, str]]) -> None:
    """A server that answers one connection after the other with these SQLSTATEs and messages."""
    while answers:
        client, _ = listener.accept()
        with client:
            client.recv(1024)
            code, message = answers.pop(0)
            fields = f"SFATAL\0VFATAL\0C{code}\0M{message}\0\0".encode()
            client.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)


def test_a_server_that_is_not_ready_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not one that rejects the user: waiting would not help."""
    monkeypatch.setattr(database_connection, "_POLL_INTERVAL", 0.01)
    states = ("starting up", "shutting down", "in recovery mode", "not yet accepting connections")
    answers = [("57P03", f"the database system is {state}") for state in states]
    answers += [("28000", "password authentication failed"), ("57P03", "the database system is starting up")]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_refuse, args=[listener, answers])
        server.start()
        url = f"postgresql://me@127.0.0.1:{listener.getsockname()[1]}/clerk?sslmode=disable&gssencmode=disable"
        wait_until_ready(url, 60.0)
        assert len(answers) == 1
        with pytest.raises(DatabaseNotReady, match=r"is not ready \(.*starting up\)"):
            wait_until_ready(url, -1.0)
        server.join()


def test_jit_is_off(database: Url) -> None:
    """With it, Debian's default, the view of the invariants takes seconds at a million rows."""
    with connect_to(with_options(database, "-cjit%3Don")) as connection:
        assert connection.execute("show jit").fetchone() == ("off",)


def test_the_search_path_is_set_to_public(database: Url) -> None:
    with connect_to(with_options(database, "-csearch_path%3Dpg_catalog")) as connection:
        assert connection.execute("select count(*) from sites").fetchone() == (0,)


def test_other_database_errors_are_not_translated(database: Url) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable), connect_to(database) as connection:
        connection.execute("select * from nowhere")
