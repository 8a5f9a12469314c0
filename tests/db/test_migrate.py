"""Planning, applying and taking back: what is refused, and that a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.db.migrations import procrastinate_schema
from clerk.db.migrations.migrate import Migrator, read_state
from clerk.db.migrations.sqlfiles import SqlFolder, default_folder
from clerk.errors import DatabaseRefused, ForeignDatabase, MigrationError, SchemaMismatch
from tests.conftest import Url
from tests.db.conftest import Workbench
from tests.db.schema import facts

VERSIONS = range(1, default_folder().newest + 1)


def moves(migrator: Migrator) -> list[Callable[[], object]]:
    """Everything that may be asked of it."""
    return [migrator.plan, migrator.up, lambda: migrator.down(0), lambda: migrator.data_loss(0)]


def steps(migrator: Migrator) -> list[str]:
    return [str(step) for step in migrator.plan()]


def test_up_then_down_leaves_nothing_and_up_again_makes_the_same(empty: psycopg.Connection, folder: SqlFolder) -> None:
    migrator = Migrator(empty, folder)
    before = facts(empty, folder)
    migrator.up()
    top = facts(empty, folder)
    assert migrator.plan() == []
    assert migrator.up() == [], "nothing to do the second time"

    migrator.down(0)
    assert facts(empty, folder) == before
    assert read_state(empty).kind == "empty"
    migrator.up()
    assert facts(empty, folder) == top


@pytest.mark.parametrize("version", VERSIONS)
def test_each_migration_can_be_taken_back_alone(empty: psycopg.Connection, folder: SqlFolder, version: int) -> None:
    migrator = Migrator(empty, folder)
    if version > 1:
        migrator.up(version - 1)
    below = facts(empty, folder)
    migrator.up(version)
    above = facts(empty, folder)
    migrator.down(version - 1)
    assert facts(empty, folder) == below
    migrator.up(version)
    assert facts(empty, folder) == above


def test_plan_says_what_up_will_do_and_does_nothing(empty: psycopg.Connection, workbench: Workbench) -> None:
    name = workbench.migration("things", "create table things (id int);", "drop table things;")
    workbench.write("functions/one.sql", "-- needs: 0001\ncreate function one() returns int return 1;")
    before = facts(empty, workbench.folder)
    migrator = Migrator(empty, workbench.folder)
    planned = migrator.plan()
    assert [str(step) for step in planned] == [
        f"bring Procrastinate to {procrastinate_schema.package_version()}",
        f"apply {name}",
        "create function one",
    ]
    assert facts(empty, workbench.folder) == before
    assert migrator.up() == planned


def test_up_to_stops_there_and_its_functions_with_it(empty: psycopg.Connection, workbench: Workbench) -> None:
    workbench.migration("things", "create table things (id int);", "drop table things;")
    second = workbench.migration("others", "create table others (id int);", "drop table others;")
    workbench.write("views/of_others.sql", "-- needs: 0002\ncreate view of_others as select * from others;")
    migrator = Migrator(empty, workbench.folder)
    migrator.up(1)
    assert read_state(empty).version == 1
    assert steps(migrator) == [f"apply {second}", "create view of_others"]
    with pytest.raises(MigrationError, match="at 0001 and cannot go up to 0003"):
        migrator.up(3)
    migrator.up()
    with pytest.raises(MigrationError, match="at 0002 and cannot go up to 0001"):
        migrator.up(1)


def test_an_edited_migration_is_refused_by_its_name(empty: psycopg.Connection, workbench: Workbench) -> None:
    name = workbench.migration("things", "create table things (id int);", "drop table things;")
    workbench.migration("others", "create table others (id int);", "drop table others;")
    Migrator(empty, workbench.folder).up()
    before = facts(empty, workbench.folder)
    workbench.write(f"migrations/{name}.up.sql", "create table things (id bigint);")
    migrator = Migrator(empty, workbench.folder)
    for move in moves(migrator):
        with pytest.raises(MigrationError, match=f"{name} was changed after it had been applied here"):
            move()
    assert facts(empty, workbench.folder) == before


def test_an_edited_way_back_is_no_edited_migration(empty: psycopg.Connection, workbench: Workbench) -> None:
    """A down file that never worked must be mendable."""
    name = workbench.migration("things", "create table things (id int);", "drop table thnigs;")
    Migrator(empty, workbench.folder).up()
    with pytest.raises(MigrationError, match=f"{name}.down failed .*thnigs"):
        Migrator(empty, workbench.folder).down(0)
    workbench.write(f"migrations/{name}.down.sql", "drop table things;")
    Migrator(empty, workbench.folder).down(0)
    assert read_state(empty).tables == {}


def test_a_database_newer_than_the_code_is_refused(empty: psycopg.Connection, workbench: Workbench) -> None:
    workbench.migration("things", "create table things (id int);", "drop table things;")
    second = workbench.migration("others", "create table others (id int);", "drop table others;")
    Migrator(empty, workbench.folder).up()
    workbench.remove(f"migrations/{second}.up.sql")
    before = facts(empty, workbench.folder)
    migrator = Migrator(empty, workbench.folder)
    for move in moves(migrator):
        with pytest.raises(
            SchemaMismatch, match=f"at {second}, newer than this clerk, which ends at 0001: update clerk"
        ):
            move()
    assert facts(empty, workbench.folder) == before


def test_a_hole_in_the_record_is_refused(empty: psycopg.Connection, workbench: Workbench) -> None:
    name = workbench.migration("things", "create table things (id int);")
    workbench.migration("others", "create table others (id int);")
    Migrator(empty, workbench.folder).up()
    empty.execute("delete from clerk_migrations where version = 1")
    with pytest.raises(MigrationError, match=f"{name} is not recorded as applied"):
        Migrator(empty, workbench.folder).up()


def test_a_foreign_database_is_refused_and_left_alone(empty: psycopg.Connection, folder: SqlFolder) -> None:
    for number in range(7):
        empty.execute(f"create table theirs_{number} (id int)".encode())
    # Named like ours, but keyed otherwise: somebody else's sites.
    empty.execute("create table sites (id int primary key, subdomain varchar)")
    before = facts(empty, folder)
    migrator = Migrator(empty, folder)
    for move in moves(migrator):
        with pytest.raises(
            ForeignDatabase, match=r"something else \(sites, theirs_0, theirs_1, theirs_2, theirs_3, …\)"
        ):
            move()
    assert facts(empty, folder) == before


def test_tables_of_an_extension_are_nobodys(empty: psycopg.Connection, folder: SqlFolder) -> None:
    """PostGIS and others bring tables into public; a database with only those is empty."""
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


def test_losses_are_the_tables_with_rows_that_would_go(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute("insert into sites (subdomain) values ('a'), ('b')")
    connection.execute("insert into content_items (subdomain, kind) values ('a', 'archive')")
    before = facts(connection, folder)
    migrator = Migrator(connection, folder)
    assert migrator.data_loss(folder.newest) == {}
    to_one, to_nothing = migrator.data_loss(1), migrator.data_loss(0)
    assert "sites" not in to_one
    assert to_one["content_items"] == 1
    assert to_nothing["sites"] == 2
    assert not [name for name in to_nothing if name.startswith(("clerk_", "adopted_"))]
    assert facts(connection, folder) == before, "asking changes nothing"


def test_losses_count_the_jobs_too(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute("insert into procrastinate_jobs (queue_name, task_name) values ('ocr', 'x')")
    assert Migrator(connection, folder).data_loss(0)["procrastinate_jobs"] == 1
    assert "procrastinate_jobs" not in Migrator(connection, folder).data_loss(1)


def test_down_below_where_it_is(empty: psycopg.Connection, workbench: Workbench) -> None:
    workbench.migration("things", "create table things (id int);", "drop table things;")
    migrator = Migrator(empty, workbench.folder)
    assert migrator.down(0) == [], "nothing was ever applied"
    migrator.up()
    with pytest.raises(MigrationError, match="the database is at 0001, below 0005"):
        migrator.down(5)


def test_a_failing_migration_says_which_and_leaves_nothing(empty: psycopg.Connection, workbench: Workbench) -> None:
    workbench.migration("things", "create table things (id int);", "drop table things;")
    name = workbench.migration("broken", "create table others (id int); select 1 / 0;")
    with pytest.raises(MigrationError, match=rf"{name} failed \(division by zero\)"):
        Migrator(empty, workbench.folder).up()
    state = read_state(empty)
    assert state.version == 1, "what came before it stands"
    assert "others" not in state.tables


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (["first.up.sql"], "has a name that says no order: call it NNNN_what.up.sql"),
        (["0001_a.up.sql"], "0001_a.up.sql has no way back: write 0001_a.down.sql beside it"),
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
def test_a_folder_out_of_order_is_refused(workbench: Workbench, files: list[str], sentence: str) -> None:
    for name in files:
        workbench.write(f"migrations/{name}", "")
    with pytest.raises(MigrationError, match=sentence):
        assert workbench.folder.migrations


def test_files_are_read_as_utf8_whatever_the_locale(
    empty: psycopg.Connection, workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a migration with a ü in a comment has another checksum on another machine, and is refused."""
    workbench.migration("things", "create table things (id int); comment on table things is 'für “alle”';")
    assert "für “alle”" in workbench.folder.migrations[0].up
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "latin-1")
    monkeypatch.setattr("io.text_encoding", lambda encoding, *_: encoding or "latin-1")
    assert "für “alle”" in workbench.folder.migrations[0].up
