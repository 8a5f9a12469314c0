"""Privileges: which users can migrate, and what the three roles may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import errors, sql

from clerk.db import audit
from clerk.db.connection import connect_to, translate_errors
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator, read_state
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.db.migrations.verify import verify_schema
from clerk.errors import DatabaseRefused
from clerk.pipeline import engine
from clerk.reconcile import log
from tests.conftest import NO_FSYNC, Databases, Url
from tests.db.conftest import copy_data_directory
from tests.db.schema import schema_lines, tables

ROLES = ("clerk_owner", "clerk_worker", "clerk_dashboard")


@pytest.fixture(scope="module")
def bare_server(data_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Url]:
    """A server on which clerk has never migrated a database, so clerk's roles do not exist yet."""
    server = Server(tmp_path_factory.mktemp("bare") / "postgres", options=NO_FSYNC)
    copy_data_directory(data_directory, server.data)
    server.start()
    yield server.url("postgres")
    server.stop()


@pytest.fixture
def admin(bare_server: Url) -> Iterator[psycopg.Connection]:
    """A superuser connection to the bare server; clerk's roles are dropped after the test."""
    with psycopg.connect(bare_server, autocommit=True) as connection:
        yield connection
        for name in (*ROLES, "someone", "another"):
            connection.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(name)))


@pytest.fixture
def owned_database(bare_server: Url, admin: psycopg.Connection) -> Iterator[Url]:
    """The URL of a database that the ordinary user `someone` owns, for that user."""
    admin.execute("create role someone login; create role another login")
    databases = Databases(bare_server)
    url = databases.create()
    admin.execute(sql.SQL("alter database {} owner to someone").format(sql.Identifier(databases.created[0])))
    yield as_user(url, "someone")
    databases.drop_all()


def as_user(url: Url, user: str) -> Url:
    return url.replace("//clerk@", f"//{user}@").replace("//someone@", f"//{user}@")


def problems(connection: psycopg.Connection, folder: SqlFolder) -> list[str]:
    return [problem for check in verify_schema(connection, folder) for problem in check.problems]


def owners(connection: psycopg.Connection) -> set[str]:
    names = connection.execute(
        "select distinct pg_get_userbyid(relowner) from pg_class"
        " where relnamespace = 'public'::regnamespace and relkind in ('r', 'v', 'S')"
        " union select pg_get_userbyid(proowner) from pg_proc where pronamespace = 'public'::regnamespace"
    )
    return {name for (name,) in names}


def test_a_user_without_privileges_gets_a_clear_error(owned_database: Url, folder: SqlFolder) -> None:
    with psycopg.connect(owned_database) as connection:
        before = schema_lines(connection, folder)
    with (
        pytest.raises(DatabaseRefused, match=r"lacks a privilege \(permission denied for schema public\)"),
        connect_to(as_user(owned_database, "another")) as connection,
    ):
        Migrator(connection, folder).up()
    with psycopg.connect(owned_database) as connection:
        assert schema_lines(connection, folder) == before


def test_without_createrole_everything_but_the_roles_is_migrated(
    owned_database: Url, admin: psycopg.Connection, folder: SqlFolder
) -> None:
    log: list[str] = []
    with connect_to(owned_database) as connection:
        migrator = Migrator(connection, folder, log=log.append)
        migrator.up()
        notes = [line for line in log if line.startswith("note:")]
        assert len(notes) == 1
        assert "someone may not create roles, so clerk_owner, clerk_worker, clerk_dashboard do not exist" in notes[0]
        assert migrator.plan() == []
        assert problems(connection, folder) == []

        # An administrator creates the roles later, as the note says.
        admin.execute("create role clerk_owner; create role clerk_worker; create role clerk_dashboard")
        admin.execute("grant clerk_owner to someone")
        assert {step.action for step in migrator.plan()} == {"execute"}
        migrator.up()
        assert migrator.plan() == []
        assert owners(connection) == {"clerk_owner"}
        assert connection.execute(
            "select has_table_privilege('clerk_dashboard', 'pipeline_overview', 'select')"
        ).fetchone() == (True,)


def test_with_createrole_objects_belong_to_clerk_owner(
    owned_database: Url, admin: psycopg.Connection, folder: SqlFolder
) -> None:
    admin.execute("alter role someone createrole")
    with connect_to(owned_database) as connection:
        before = schema_lines(connection, folder)
        Migrator(connection, folder).up()
        assert Migrator(connection, folder).plan() == []
        assert owners(connection) == {"clerk_owner"}

    # From now on every member of clerk_owner may migrate.
    admin.execute("grant clerk_owner to another")
    with connect_to(as_user(owned_database, "another")) as connection:
        migrator = Migrator(connection, folder)
        migrator.down(folder.newest - 1)
        migrator.up()
        assert migrator.plan() == []
        assert owners(connection) == {"clerk_owner"}
        assert problems(connection, folder) == []

    with connect_to(owned_database) as connection:
        Migrator(connection, folder).down(0)
        assert schema_lines(connection, folder) == before, "no object remains that would prevent dropping the roles"


def test_a_user_who_cannot_grant_on_the_schema_stays_the_owner(
    owned_database: Url, admin: psycopg.Connection, folder: SqlFolder
) -> None:
    """The user may create roles and tables, but a role without CREATE on the schema cannot own objects there."""
    admin.execute("alter role another createrole")
    with psycopg.connect(owned_database, autocommit=True) as connection:
        connection.execute("grant create on schema public to another")
    with connect_to(as_user(owned_database, "another")) as connection:
        Migrator(connection, folder).up()
        assert Migrator(connection, folder).plan() == []
        assert owners(connection) == {"another"}
        assert problems(connection, folder) == []


def test_the_dashboard_role_may_only_read_views(connection: psycopg.Connection) -> None:
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


AUDIT = ("operator_actions", "reconcile_log", "ignored_results")


def test_the_worker_role_may_write_every_table_but_the_migration_records(connection: psycopg.Connection) -> None:
    """Fails for a table that a later migration adds and sql/grants.sql does not mention."""
    for table in tables(connection):
        rights = {
            right
            for right in ("select", "insert", "update", "delete", "truncate")
            if connection.execute("select has_table_privilege('clerk_worker', %s, %s)", [table, right]).fetchone()
            == (True,)
        }
        is_record = table.startswith(("clerk_", "legacy_"))
        expected = {"select"} if is_record else {"select", "insert", "update", "delete"}
        if table in AUDIT:
            expected = {"select", "insert"}
        # The first run of a legacy site, which a worker may start, saves the row that it overwrites.
        assert rights == expected | ({"insert"} if table == "legacy_sites" else set()), table


def test_the_worker_role_may_only_read_views(connection: psycopg.Connection) -> None:
    """Writing to a simple view would write to its table, an audit table for example, as the owner."""
    for kind, view in read_state(connection).objects:
        if kind == "view":
            rights = connection.execute(
                "select has_table_privilege('clerk_worker', %s, 'select'),"
                " has_table_privilege('clerk_worker', %s, 'insert, update, delete')",
                [view, view],
            ).fetchone()
            assert rights == (True, False), view


def test_the_worker_role_can_defer_and_delete_a_job(connection: psycopg.Connection) -> None:
    connection.execute("set role clerk_worker")
    connection.execute("insert into sites (subdomain) values ('springfield')")
    connection.execute("insert into content_items (subdomain, kind) values ('springfield', 'archive')")
    connection.execute("insert into procrastinate_jobs (queue_name, task_name) values ('ocr', 'x')")
    connection.execute("insert into procrastinate_workers default values")
    connection.execute("delete from procrastinate_jobs")


def test_the_worker_role_can_start_the_runs_that_are_due(connection: psycopg.Connection) -> None:
    """It may only read the view due_sites, and locking a row through a view needs the privilege to update the view."""
    connection.execute("set role clerk_worker")
    for name in ("springfield", "shelbyville"):
        connection.execute("insert into sites (subdomain) values (%s)", [name])
    assert engine.start_next_due_site(connection) == "shelbyville"
    assert engine.start_next_due_site(connection) == "springfield"
    assert engine.start_next_due_site(connection) is None


def test_the_worker_role_can_only_add_to_audit_tables(connection: psycopg.Connection, folder: SqlFolder) -> None:
    # As earlier versions granted it; the next migration takes it back.
    granted = (*AUDIT, "recent_repairs")
    connection.execute(f"grant update, delete on {', '.join(granted)} to clerk_worker".encode())
    assert sorted(str(step) for step in Migrator(connection, folder).plan()) == sorted(
        f"execute revoke delete, update on {name} from clerk_worker" for name in granted
    )
    Migrator(connection, folder).up()
    assert Migrator(connection, folder).plan() == []

    for days in (1, 91):
        connection.execute(
            "insert into operator_actions (action, at) values ('retry', now() - %s * interval '1 day')", [days]
        )
    connection.execute("set role clerk_worker")
    audit.log_action(connection, "rewind")
    for command in ("update operator_actions set action = 'pause'", "delete from operator_actions"):
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(command.encode())
    # Retention still works, and a false clock makes no row older.
    connection.execute("select set_config('clerk.now', (now() + interval '1 year')::text, false)")
    log.delete_old(connection)
    rows = connection.execute("select action, at > now() - interval '90 days' from operator_actions order by 1")
    assert rows.fetchall() == [("retry", True), ("rewind", True)]


def test_the_dashboard_role_may_not_delete_old_records(connection: psycopg.Connection) -> None:
    connection.execute("set role clerk_dashboard")
    with pytest.raises(errors.InsufficientPrivilege):
        connection.execute("select clerk_delete_old_records()")


def test_a_missing_privilege_names_the_role_that_suffices(connection: psycopg.Connection) -> None:
    """`clerk status` as the dashboard's role: the owner is not needed."""
    connection.execute("set role clerk_dashboard")
    with pytest.raises(DatabaseRefused) as caught, translate_errors("postgresql://localhost/clerk"):
        connection.execute("select from sites")
    assert str(caught.value.remedy).startswith("connect as a member of clerk_worker, or to migrate")


PLANTED_OPERATOR = """
create function public.planted(procrastinate_job_event_type, procrastinate_job_event_type) returns boolean
language plpgsql as $$ begin raise exception 'executed as %', current_user; end $$;
create operator public.= (
    leftarg = procrastinate_job_event_type, rightarg = procrastinate_job_event_type, function = public.planted);
"""


def test_an_operator_in_public_is_not_executed_as_owner(connection: psycopg.Connection) -> None:
    """Before Postgres 15 the read-only role may create operators, which the security definer function used."""
    connection.execute("insert into procrastinate_jobs (queue_name, task_name) values ('ocr', 'x')")
    assert connection.execute("select count(*) from procrastinate_events").fetchone() == (1,)
    connection.execute("grant create on schema public to public")
    connection.execute("set role clerk_dashboard")
    connection.execute(PLANTED_OPERATOR.encode())
    assert connection.execute("select clerk_first_event_since(now() - interval '1 hour') > 0").fetchone() == (True,)


def test_security_definer_functions_search_no_schema_of_users(connection: psycopg.Connection) -> None:
    functions = connection.execute(
        "select proname, proconfig from pg_proc where pronamespace = 'public'::regnamespace and prosecdef order by 1"
    ).fetchall()
    assert functions == [
        ("clerk_delete_old_records", ["search_path=pg_catalog, pg_temp"]),
        ("clerk_first_event_since", ["search_path=pg_catalog, pg_temp"]),
        ("clerk_index_sizes", ["search_path=pg_catalog, pg_temp"]),
        ("clerk_sessions", ["search_path=pg_catalog, pg_temp"]),
    ]


def test_create_on_schema_public_is_revoked_from_public(
    owned_database: Url, admin: psycopg.Connection, folder: SqlFolder
) -> None:
    """With the grants of Postgres 14: the schema belongs to a superuser, and every user may create objects in it."""
    as_superuser = as_user(owned_database, "clerk")
    with psycopg.connect(as_superuser, autocommit=True) as connection:
        connection.execute("alter schema public owner to clerk")
        connection.execute("grant create on schema public to public")
    # An ordinary user may not revoke it. `clerk db verify` reports it, and the commands for a superuser work.
    with connect_to(owned_database) as connection:
        Migrator(connection, folder).up()
        assert Migrator(connection, folder).plan() == []
        (problem,) = problems(connection, folder)
        assert problem.startswith("every user may create objects in schema public")
        assert problem.endswith('as clerk, run "revoke create on schema public from public"')
    with connect_to(as_superuser) as connection:
        Migrator(connection, folder).up()
        assert Migrator(connection, folder).plan() == []
        assert problems(connection, folder) == []
    # The user who migrated before owns the objects and may continue to do so; others may not create anything.
    with connect_to(owned_database) as connection:
        connection.execute("create table mine (); drop table mine")
        migrator = Migrator(connection, folder)
        migrator.down(folder.newest - 1)
        migrator.up()
        assert problems(connection, folder) == []
    with (
        psycopg.connect(as_user(owned_database, "another"), autocommit=True) as connection,
        pytest.raises(errors.InsufficientPrivilege),
    ):
        connection.execute("create table planted ()")


def test_the_read_only_role_does_not_keep_create(
    owned_database: Url, admin: psycopg.Connection, folder: SqlFolder
) -> None:
    """With the grants of Postgres 14 the role creates objects before the right is revoked. `clerk db verify` names
    them, and its commands remove them."""
    as_superuser = as_user(owned_database, "clerk")
    with connect_to(as_superuser) as connection:
        Migrator(connection, folder).up()
        connection.execute("alter schema public owner to clerk")
        connection.execute("grant create on schema public to public")
        connection.execute("set role clerk_dashboard")
        connection.execute(PLANTED_OPERATOR.encode())
        connection.execute("reset role")
        # What a former version of clerk granted, and a login user who is a member of the role.
        connection.execute("grant create on schema public to clerk_worker")
        connection.execute("grant clerk_dashboard to another")
        connection.execute("set role another")
        connection.execute("create table public.procrastinate_more (); create table public.adopted_sites ()")
        connection.execute("reset role")
        found = problems(connection, folder)
        assert any(problem.startswith("role clerk_worker may create objects") for problem in found)

        Migrator(connection, folder).up()
        assert Migrator(connection, folder).plan() == []
        for role in ("clerk_worker", "clerk_dashboard", "another"):
            query = "select has_schema_privilege(%s, 'public', 'create')"
            assert connection.execute(query, [role]).fetchone() == (False,), role
        privileges = next(check for check in verify_schema(connection, folder) if check.name == "privileges")
        assert [problem.split(" belongs to clerk_dashboard")[0] for problem in privileges.problems] == [
            "operator public.=(public.procrastinate_job_event_type,public.procrastinate_job_event_type)",
            "function public.planted(public.procrastinate_job_event_type,public.procrastinate_job_event_type)",
        ]
        for problem in privileges.problems:
            connection.execute(problem.split('"')[1].encode())
        assert problems(connection, folder) == []
        connection.execute("drop table procrastinate_more, adopted_sites")


def test_only_missing_grants_are_executed(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute("revoke insert on sites from clerk_worker")
    assert [str(step) for step in Migrator(connection, folder).plan()] == [
        "execute grant insert on sites to clerk_worker"
    ]
    Migrator(connection, folder).up()
    assert Migrator(connection, folder).plan() == []


def test_down_does_not_change_other_databases(new_database: Callable[[], Url], folder: SqlFolder) -> None:
    """clerk_owner may own other databases on this server; `down` in one database must not touch them."""
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
