from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql
from starlette.testclient import TestClient

from clerk.db.connection import connect_to
from clerk.errors import DatabaseRefused
from clerk.web import db
from clerk.web.app import QUERIES, create_app
from clerk.web.db import ROLE, ReadOnlyPool
from clerk.web.pages import probes
from tests.conftest import Databases, Url, with_database
from tests.helpers import until


def test_the_role_can_read_views_only(pool: ReadOnlyPool) -> None:
    assert pool.role == ROLE
    with pool.transaction() as connection:
        assert connection.execute("select current_user, current_setting('statement_timeout')").fetchone() == (
            ROLE,
            "5s",
        )
    with pytest.raises(DatabaseRefused, match="sites"), pool.transaction() as connection:
        connection.execute("select from sites")
    with pool.pool.connection() as connection:
        assert connection.execute("select current_user").fetchone() != (ROLE,)


@pytest.mark.parametrize("role", [ROLE, None])
@pytest.mark.parametrize(
    "command",
    [
        "delete from sites",
        "insert into due_sites (subdomain) values ('x')",
        "create table mine ()",
        "select clerk_pause_queue('ocr', 'x')",
        "select setval('procrastinate_jobs_id_seq', 1)",
    ],
)
def test_cannot_write(pool: ReadOnlyPool, connection: psycopg.Connection, role: str | None, command: str) -> None:
    """With and without the role."""
    connection.execute("insert into sites (subdomain) values ('springfield')")
    pool.role = role
    with pytest.raises((DatabaseRefused, psycopg.errors.InsufficientPrivilege)), pool.transaction() as read_only:
        read_only.execute(command.encode())
    assert connection.execute("select count(*) from sites").fetchone() == (1,)


def test_a_missing_role_is_logged(
    pool: ReadOnlyPool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(db, "ROLE", "clerk_missing")
    pool.role = None
    pool.assume_role()
    assert pool.role is None
    assert "clerk_missing does not exist" in caplog.text
    pool.check(QUERIES)


@pytest.fixture
def outsider(database: Url, connection: psycopg.Connection) -> Iterator[Url]:
    """A database user who may read the views but is not a member of clerk_dashboard."""
    user = f"outsider_{urlsplit(database).path[1:]}"
    connection.execute(sql.SQL("create role {} login password 'outside'").format(sql.Identifier(user)))
    for view in connection.execute("select name from clerk_schema_objects where kind = 'view'").fetchall():
        connection.execute(sql.SQL("grant select on {} to {}").format(sql.Identifier(*view), sql.Identifier(user)))
    parts = urlsplit(database)
    yield urlunsplit(parts._replace(netloc=f"{user}:outside@{parts.netloc.rpartition('@')[2]}"))
    connection.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(user)))


def test_a_role_that_is_not_granted_is_logged(outsider: Url, caplog: pytest.LogCaptureFixture) -> None:
    with ReadOnlyPool(outsider) as pool:
        pool.assume_role()
        assert pool.role is None
        assert "is not granted to this database user" in caplog.text
        pool.check(QUERIES)


def readiness(url: Url) -> tuple[int, str]:
    with ReadOnlyPool(url) as pool:
        response = TestClient(create_app(pool, "open sesame")).get("/readyz")
    return response.status_code, response.text


def test_ready(client: TestClient) -> None:
    assert client.get("/readyz").text == "ready\n"
    assert client.get("/livez").text == "alive\n"


def test_readiness_is_cached(
    client: TestClient, pool: ReadOnlyPool, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone may request it without a token: that must not load the database."""
    monkeypatch.setattr(probes, "READINESS_TTL", 3600.0)
    assert client.get("/readyz").status_code == 200
    connection.execute("drop view site_documents")
    assert client.get("/readyz").status_code == 200, "not checked again"
    later = TestClient(create_app(pool), base_url="http://localhost")
    assert later.get("/readyz").status_code == 503
    connection.execute("create view site_documents as select 1")
    assert later.get("/readyz").status_code == 503, "failures are cached too"


def test_not_ready_without_the_views(database: Url, connection: psycopg.Connection, server: Url) -> None:
    connection.execute("drop view site_documents")
    status, reason = readiness(database)
    assert (status, 'run "clerk db up"' in reason) == (503, True)
    assert readiness(with_database(server, "postgres"))[0] == 503


def test_not_ready_without_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "_POOL_TIMEOUT", 0.2)
    status, reason = readiness("postgresql://somebody:secret@127.0.0.1:1/nothing")
    assert (status, reason) == (503, "not ready: the database cannot be reached\n")


def test_recovers_when_the_database_is_reachable_again(
    server: Url, template: str, monkeypatch: pytest.MonkeyPatch, connection: psycopg.Connection
) -> None:
    monkeypatch.setattr(db, "_POOL_TIMEOUT", 0.2)
    databases = Databases(server)
    url = databases.create(template)
    name = sql.Identifier(urlsplit(url).path[1:])
    try:
        with ReadOnlyPool(url) as pool, connect_to(with_database(server, "postgres")) as operator:
            client = TestClient(create_app(pool), base_url="http://localhost")
            until(lambda: client.get("/").status_code == 200)
            operator.execute(sql.SQL("alter database {} allow_connections false").format(name))
            operator.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s",
                [name.as_string()[1:-1]],
            )
            assert client.get("/livez").status_code == 200
            assert client.get("/readyz").status_code == 503
            page = client.get("/")
            assert page.status_code == 503
            assert "This page cannot be shown now" in page.text
            operator.execute(sql.SQL("alter database {} allow_connections true").format(name))
            until(lambda: client.get("/readyz").status_code == 200)
            until(lambda: client.get("/").status_code == 200)
    finally:
        databases.drop_all()
