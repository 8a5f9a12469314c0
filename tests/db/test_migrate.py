"""Planning, applying and reverting migrations: what is refused, and that a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.db.migrations import procrastinate_schema
from clerk.db.migrations.migrate import Migrator, read_state
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.errors import DatabaseRefused, ForeignDatabase, MigrationError, SchemaMismatch
from tests.conftest import Url
from tests.db.conftest import SqlFolderBuilder
from tests.db.schema import schema_lines


def operations(migrator: Migrator) -> list[Callable[[], object]]:
    return [migrator.plan, migrator.up, lambda: migrator.down(0), lambda: migrator.data_loss(0)]


def steps(migrator: Migrator) -> list[str]:
    return [str(step) for step in migrator.plan()]


def test_up_then_down_restores_the_schema(empty: psycopg.Connection, folder: SqlFolder) -> None:
    migrator = Migrator(empty, folder)
    before = schema_lines(empty, folder)
    migrator.up()
    top = schema_lines(empty, folder)
    assert migrator.plan() == []
    assert migrator.up() == [], "nothing to do the second time"

    migrator.down(0)
    assert schema_lines(empty, folder) == before
    assert read_state(empty).kind == "empty"
    migrator.up()
    assert schema_lines(empty, folder) == top


def test_each_migration_can_be_reverted_alone(
    empty: psycopg.Connection, connection: psycopg.Connection, folder: SqlFolder
) -> None:
    migrator = Migrator(empty, folder)
    below = schema_lines(empty, folder)
    for migration in folder.migrations:
        migrator.up(migration.version)
        above = schema_lines(empty, folder)
        migrator.down(migration.version - 1)
        assert schema_lines(empty, folder) == below, migration.name
        migrator.up(migration.version)
        assert schema_lines(empty, folder) == above, migration.name
        below = above
    assert schema_lines(connection, folder) == above, "a new database is the same without objects in between"


def test_an_interrupted_migration_of_a_new_database_is_continued(
    empty: psycopg.Connection, sql_folder: SqlFolderBuilder
) -> None:
    sql_folder.migration("things", "create table things (id int);", "drop table things;")
    broken = sql_folder.migration("others", "create table things (id int);", "drop table others;")
    sql_folder.write("functions/one.sql", "-- needs: 0001\ncreate function one() returns int return 1;")
    with pytest.raises(MigrationError, match=broken):
        Migrator(empty, sql_folder.folder).up()
    assert read_state(empty).version == 1
    sql_folder.write(f"migrations/{broken}.up.sql", "create table others (id int);")
    Migrator(empty, SqlFolder(sql_folder.folder.root)).up()
    assert empty.execute("select one(), count(*) from others").fetchone() == (1, 0)


def test_plan_lists_the_steps_of_up_and_changes_nothing(
    empty: psycopg.Connection, sql_folder: SqlFolderBuilder
) -> None:
    name = sql_folder.migration("things", "create table things (id int);", "drop table things;")
    sql_folder.write("functions/one.sql", "-- needs: 0001\ncreate function one() returns int return 1;")
    before = schema_lines(empty, sql_folder.folder)
    migrator = Migrator(empty, sql_folder.folder)
    planned = migrator.plan()
    assert [str(step) for step in planned] == [
        f"install Procrastinate {procrastinate_schema.package_version()}",
        f"apply {name}",
        "create function one",
    ]
    assert schema_lines(empty, sql_folder.folder) == before
    assert migrator.up() == planned


def test_up_to_a_version_applies_only_what_needs_that_version(
    empty: psycopg.Connection, sql_folder: SqlFolderBuilder
) -> None:
    sql_folder.migration("things", "create table things (id int);", "drop table things;")
    second = sql_folder.migration("others", "create table others (id int);", "drop table others;")
    sql_folder.write("views/of_others.sql", "-- needs: 0002\ncreate view of_others as select * from others;")
    migrator = Migrator(empty, sql_folder.folder)
    migrator.up(1)
    assert read_state(empty).version == 1
    assert steps(migrator) == [f"apply {second}", "create view of_others"]
    with pytest.raises(MigrationError, match="at 0001 and cannot be migrated up to 0003"):
        migrator.up(3)
    migrator.up()
    with pytest.raises(MigrationError, match="at 0002 and cannot be migrated up to 0001"):
        migrator.up(1)


def test_an_edited_migration_is_refused(empty: psycopg.Connection, sql_folder: SqlFolderBuilder) -> None:
    name = sql_folder.migration("things", "create table things (id int);", "drop table things;")
    sql_folder.migration("others", "create table others (id int);", "drop table others;")
    Migrator(empty, sql_folder.folder).up()
    before = schema_lines(empty, sql_folder.folder)
    sql_folder.write(f"migrations/{name}.up.sql", "create table things (id bigint);")
    migrator = Migrator(empty, sql_folder.folder)
    for operation in operations(migrator):
        with pytest.raises(MigrationError, match=f"{name} was changed after it was applied to this database"):
            operation()
    assert schema_lines(empty, sql_folder.folder) == before


def test_a_down_file_may_be_edited(empty: psycopg.Connection, sql_folder: SqlFolderBuilder) -> None:
    """A down migration that never worked must be fixable."""
    name = sql_folder.migration("things", "create table things (id int);", "drop table thnigs;")
    Migrator(empty, sql_folder.folder).up()
    with pytest.raises(MigrationError, match=f"{name}.down failed .*thnigs"):
        Migrator(empty, sql_folder.folder).down(0)
    sql_folder.write(f"migrations/{name}.down.sql", "drop table things;")
    Migrator(empty, sql_folder.folder).down(0)
    assert read_state(empty).tables == {}


def test_a_database_newer_than_the_code_is_refused(empty: psycopg.Connection, sql_folder: SqlFolderBuilder) -> None:
    sql_folder.migration("things", "create table things (id int);", "drop table things;")
    second = sql_folder.migration("others", "create table others (id int);", "drop table others;")
    Migrator(empty, sql_folder.folder).up()
    sql_folder.remove(f"migrations/{second}.up.sql")
    before = schema_lines(empty, sql_folder.folder)
    migrator = Migrator(empty, sql_folder.folder)
    for operation in operations(migrator):
        with pytest.raises(
            SchemaMismatch, match=f"at {second}, newer than this clerk, whose newest migration is 0001: update clerk"
        ):
            operation()
    assert schema_lines(empty, sql_folder.folder) == before


def test_a_missing_migration_record_is_refused(empty: psycopg.Connection, sql_folder: SqlFolderBuilder) -> None:
    name = sql_folder.migration("things", "create table things (id int);")
    sql_folder.migration("others", "create table others (id int);")
    Migrator(empty, sql_folder.folder).up()
    empty.execute("delete from clerk_migrations where version = 1")
    with pytest.raises(MigrationError, match=f"{name} is not recorded as applied"):
        Migrator(empty, sql_folder.folder).up()


def test_a_foreign_database_is_refused_and_not_changed(empty: psycopg.Connection, folder: SqlFolder) -> None:
    for number in range(7):
        empty.execute(f"create table theirs_{number} (id int)".encode())
    # The same table name with another key: the table of another application.
    empty.execute("create table sites (id int primary key, subdomain varchar)")
    before = schema_lines(empty, folder)
    migrator = Migrator(empty, folder)
    for operation in operations(migrator):
        with pytest.raises(
            ForeignDatabase, match=r"another application \(sites, theirs_0, theirs_1, theirs_2, theirs_3, …\)"
        ):
            operation()
    assert schema_lines(empty, folder) == before


def test_tables_of_an_extension_do_not_make_a_database_foreign(empty: psycopg.Connection, folder: SqlFolder) -> None:
    """PostGIS and others create tables in public; a database with only those counts as empty."""
    empty.execute("create table spatial_ref_sys (srid int)")
    empty.execute("alter extension plpgsql add table spatial_ref_sys")
    Migrator(empty, folder).up()
    assert read_state(empty).kind == "ours"


def test_a_database_without_the_schema_public(new_database: Callable[[], Url], folder: SqlFolder) -> None:
    url = new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema public")
    with pytest.raises(DatabaseRefused, match="has no schema public"), connect_to(url) as connection:
        Migrator(connection, folder).up()


def test_data_loss_counts_the_rows_of_tables_that_down_drops(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute("insert into sites (subdomain) values ('a'), ('b')")
    connection.execute("insert into content_items (subdomain, kind) values ('a', 'archive')")
    before = schema_lines(connection, folder)
    migrator = Migrator(connection, folder)
    assert migrator.data_loss(folder.newest) == {}
    to_one, to_nothing = migrator.data_loss(1), migrator.data_loss(0)
    assert "sites" not in to_one
    assert to_one["content_items"] == 1
    assert to_nothing["sites"] == 2
    assert not [name for name in to_nothing if name.startswith(("clerk_", "legacy_"))]
    assert schema_lines(connection, folder) == before, "the dry run is rolled back"


def test_data_loss_counts_jobs(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute("insert into procrastinate_jobs (queue_name, task_name) values ('ocr', 'x')")
    assert Migrator(connection, folder).data_loss(0)["procrastinate_jobs"] == 1
    assert "procrastinate_jobs" not in Migrator(connection, folder).data_loss(1)


def test_down_to_a_version_that_was_never_reached(empty: psycopg.Connection, sql_folder: SqlFolderBuilder) -> None:
    sql_folder.migration("things", "create table things (id int);", "drop table things;")
    migrator = Migrator(empty, sql_folder.folder)
    assert migrator.down(0) == [], "nothing was ever applied"
    migrator.up()
    with pytest.raises(MigrationError, match="the database is at 0001, below 0005"):
        migrator.down(5)


def test_a_failing_migration_is_named_and_rolled_back(empty: psycopg.Connection, sql_folder: SqlFolderBuilder) -> None:
    sql_folder.migration("things", "create table things (id int);", "drop table things;")
    name = sql_folder.migration("broken", "create table others (id int); select 1 / 0;")
    with pytest.raises(MigrationError, match=rf"{name} failed \(division by zero\)"):
        Migrator(empty, sql_folder.folder).up()
    state = read_state(empty)
    assert state.version == 1, "the migration before it is kept"
    assert "others" not in state.tables


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (["first.up.sql"], "has no migration number in its name: name it NNNN_what.up.sql"),
        (["0001_a.up.sql"], "0001_a.up.sql has no matching down migration: write 0001_a.down.sql beside it"),
        (
            ["0001_a.up.sql", "0001_a.down.sql", "0003_b.up.sql", "0003_b.down.sql"],
            r"not numbered 1, 2, 3, … \(\[1, 3\]\)",
        ),
        (
            ["0001_a.up.sql", "0001_a.down.sql", "0001_b.up.sql", "0001_b.down.sql"],
            r"not numbered 1, 2, 3, … \(\[1, 1\]\)",
        ),
    ],
)
def test_wrongly_named_migrations_are_refused(sql_folder: SqlFolderBuilder, files: list[str], sentence: str) -> None:
    for name in files:
        sql_folder.write(f"migrations/{name}", "")
    with pytest.raises(MigrationError, match=sentence):
        assert sql_folder.folder.migrations


def test_files_are_read_as_utf8_whatever_the_locale(
    empty: psycopg.Connection, sql_folder: SqlFolderBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a migration with a ü in a comment would have another checksum on another machine, and be refused."""
    sql_folder.migration("things", "create table things (id int); comment on table things is 'für “alle”';")
    assert "für “alle”" in sql_folder.folder.migrations[0].up
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "latin-1")
    monkeypatch.setattr("io.text_encoding", lambda encoding, *_: encoding or "latin-1")
    assert "für “alle”" in sql_folder.folder.migrations[0].up
