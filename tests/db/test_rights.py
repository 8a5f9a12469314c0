"""Who may migrate, and what the three roles may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import errors, sql

from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator, read_state
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.db.migrations.verify import verify_schema
from clerk.errors import DatabaseRefused
from tests.conftest import QUICK, Databases, Url
from tests.db.conftest import copy_data_directory
from tests.db.schema import facts, tables

ROLES = ("clerk_owner", "clerk_worker", "clerk_dashboard")


@pytest.fixture(scope="module")
def bare_server(data_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Url]:
    """A server on which no database of clerk's has been migrated before, so that it has no roles yet."""
    server = Server(tmp_path_factory.mktemp("bare") / "postgres", options=QUICK)
    copy_data_directory(data_directory, server.data)
    server.start()
    yield server.url("postgres")
    server.stop()


@pytest.fixture
def admin(bare_server: Url) -> Iterator[psycopg.Connection]:
    """The administrator of the bare server, which is bare again afterwards."""
    with psycopg.connect(bare_server, autocommit=True) as connection:
        yield connection
        for name in (*ROLES, "someone", "another"):
            connection.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(name)))


@pytest.fixture
def database_of_someone(bare_server: Url, admin: psycopg.Connection) -> Iterator[Url]:
    """A database that belongs to an ordinary user; the URL is that user's."""
    admin.execute("create role someone login; create role another login")
    databases = Databases(bare_server)
    url = databases.create()
    admin.execute(sql.SQL("alter database {} owner to someone").format(sql.Identifier(databases.made[0])))
    yield as_user(url, "someone")
    databases.drop_all()


def as_user(url: Url, user: str) -> Url:
    return url.replace("//clerk@", f"//{user}@").replace("//someone@", f"//{user}@")


def problems(connection: psycopg.Connection, folder: SqlFolder) -> list[str]:
    return [problem for check in verify_schema(connection, folder) for problem in check.problems]


def owners(connection: psycopg.Connection) -> set[str]:
    found = connection.execute(
        "select distinct pg_get_userbyid(relowner) from pg_class"
        " where relnamespace = 'public'::regnamespace and relkind in ('r', 'v', 'S')"
        " union select pg_get_userbyid(proowner) from pg_proc where pronamespace = 'public'::regnamespace"
    )
    return {name for (name,) in found}


def test_a_user_without_rights_gets_a_sentence(database_of_someone: Url, folder: SqlFolder) -> None:
    with psycopg.connect(database_of_someone) as connection:
        before = facts(connection, folder)
    with (
        pytest.raises(DatabaseRefused, match=r"may not do this \(permission denied for schema public\)"),
        connect_to(as_user(database_of_someone, "another")) as connection,
    ):
        Migrator(connection, folder).up()
    with psycopg.connect(database_of_someone) as connection:
        assert facts(connection, folder) == before


def test_without_the_right_to_create_roles_all_else_is_done(
    database_of_someone: Url, admin: psycopg.Connection, folder: SqlFolder
) -> None:
    said: list[str] = []
    with connect_to(database_of_someone) as connection:
        migrator = Migrator(connection, folder, say=said.append)
        migrator.up()
        notes = [line for line in said if line.startswith("note:")]
        assert len(notes) == 1
        assert "someone may not create roles, so clerk_owner, clerk_worker, clerk_dashboard do not exist" in notes[0]
        assert migrator.plan() == []
        assert problems(connection, folder) == []

        # An administrator makes up for it, as the note said.
        admin.execute("create role clerk_owner; create role clerk_worker; create role clerk_dashboard")
        admin.execute("grant clerk_owner to someone")
        assert {step.action for step in migrator.plan()} == {"execute"}
        migrator.up()
        assert migrator.plan() == []
        assert owners(connection) == {"clerk_owner"}
        assert connection.execute(
            "select has_table_privilege('clerk_dashboard', 'pipeline_overview', 'select')"
        ).fetchone() == (True,)


def test_a_user_who_may_create_roles_hands_over_to_the_owner(
    database_of_someone: Url, admin: psycopg.Connection, folder: SqlFolder
) -> None:
    admin.execute("alter role someone createrole")
    with connect_to(database_of_someone) as connection:
        before = facts(connection, folder)
        Migrator(connection, folder).up()
        assert Migrator(connection, folder).plan() == []
        assert owners(connection) == {"clerk_owner"}

    # Whoever is a member may migrate from then on.
    admin.execute("grant clerk_owner to another")
    with connect_to(as_user(database_of_someone, "another")) as connection:
        migrator = Migrator(connection, folder)
        migrator.down(folder.newest - 1)
        migrator.up()
        assert migrator.plan() == []
        assert owners(connection) == {"clerk_owner"}
        assert problems(connection, folder) == []

    with connect_to(database_of_someone) as connection:
        Migrator(connection, folder).down(0)
        assert facts(connection, folder) == before, "nothing is left that would keep the roles from being dropped"


def test_a_user_who_may_not_give_rights_on_the_schema_keeps_what_it_makes(
    database_of_someone: Url, admin: psycopg.Connection, folder: SqlFolder
) -> None:
    """Such a user may create roles and tables, but a role without CREATE on the schema can own nothing there."""
    admin.execute("alter role another createrole")
    with psycopg.connect(database_of_someone, autocommit=True) as connection:
        connection.execute("grant create on schema public to another")
    with connect_to(as_user(database_of_someone, "another")) as connection:
        Migrator(connection, folder).up()
        assert Migrator(connection, folder).plan() == []
        assert owners(connection) == {"another"}
        assert problems(connection, folder) == []


def test_the_dashboard_may_read_the_views_and_nothing_else(connection: psycopg.Connection) -> None:
    views = [name for kind, name in read_state(connection).objects if kind == "view"]
    assert views
    connection.execute("set role clerk_dashboard")
    for view in views:
        connection.execute(sql.SQL("select * from {} limit 0").format(sql.Identifier(view)))
        may_write = connection.execute("select has_table_privilege(%s, 'insert, update, delete')", [view]).fetchone()
        assert may_write == (False,)
    for table in tables(connection):
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(sql.SQL("select from {}").format(sql.Identifier(table)))


def test_the_worker_may_write_every_table_but_the_record_of_migrations(connection: psycopg.Connection) -> None:
    """A table that a later migration adds and sql/grants.sql forgets fails here."""
    for table in tables(connection):
        rights = {
            right
            for right in ("select", "insert", "update", "delete", "truncate")
            if connection.execute("select has_table_privilege('clerk_worker', %s, %s)", [table, right]).fetchone()
            == (True,)
        }
        is_record = table.startswith(("clerk_", "adopted_"))
        expected = {"select"} if is_record else {"select", "insert", "update", "delete"}
        # The first run of an older site, which a worker may start, keeps what it overwrites.
        assert rights == expected | ({"insert"} if table == "legacy_sites" else set()), table


def test_the_worker_can_defer_and_take_a_job(connection: psycopg.Connection) -> None:
    connection.execute("set role clerk_worker")
    connection.execute("insert into sites (subdomain) values ('springfield')")
    connection.execute("insert into content_items (subdomain, kind) values ('springfield', 'archive')")
    connection.execute("insert into procrastinate_jobs (queue_name, task_name) values ('ocr', 'x')")
    connection.execute("insert into procrastinate_workers default values")
    connection.execute("delete from procrastinate_jobs")


def test_only_the_missing_rights_are_given(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute("revoke insert on sites from clerk_worker")
    assert [str(step) for step in Migrator(connection, folder).plan()] == [
        "execute grant insert on sites to clerk_worker"
    ]
    Migrator(connection, folder).up()
    assert Migrator(connection, folder).plan() == []


def test_roles_and_databases_of_others_are_left_alone(new_database: Callable[[], Url], folder: SqlFolder) -> None:
    """clerk_owner may own whole databases on this server; going down in one must not touch them."""
    mine, other = new_database(), new_database()
    name = urlsplit(other).path.removeprefix("/")
    with connect_to(mine) as connection:
        Migrator(connection, folder).up()
        connection.execute(sql.SQL("alter database {} owner to clerk_owner").format(sql.Identifier(name)))
        Migrator(connection, folder).down(0)
        owner = connection.execute(
            "select pg_get_userbyid(datdba) from pg_database where datname = %s", [name]
        ).fetchone()
        assert owner == ("clerk_owner",)
