"""Procrastinate's schema: installation, upgrade with the package's files, and tables that clerk did not create."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest
from procrastinate import schema

from clerk.db.migrations import procrastinate_schema, schema_snapshot
from clerk.db.migrations.migrate import Migrator, read_state
from clerk.db.migrations.procrastinate_schema import function_checksums, package_version, schema_file
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.errors import MigrationError, SchemaMismatch
from tests.db.conftest import SqlFolderBuilder
from tests.db.schema import schema_lines

OLD = "03.03.00"
PACKAGE_FILES = sorted(Path(schema.SchemaManager.get_migrations_path()).glob("*.sql"))


def build(connection: psycopg.Connection, folder: SqlFolder, release: str, files: list[Path] = PACKAGE_FILES) -> None:
    """Fill a database as clerk did with an older Procrastinate package."""
    for file in files:
        if file.name[: len(release)] <= release:
            with connection.transaction():
                connection.execute(file.read_bytes())
    connection.execute(folder.read("migrator_tables.sql").encode())
    version = ".".join(str(int(part)) for part in release.split("."))
    connection.execute(
        "insert into clerk_procrastinate (file, version, complete, functions) values (%s, %s, true, '{}')",
        [schema_file().name, version],
    )


def procrastinate_lines(connection: psycopg.Connection, folder: SqlFolder) -> list[str]:
    return [
        line
        for section, lines in schema_snapshot.take(connection, folder).items()
        for line in lines
        if "procrastinate_" in line and section not in ("views", "grants")
    ]


def test_the_installed_version_is_recorded(connection: psycopg.Connection) -> None:
    state = read_state(connection)
    assert state.procrastinate is not None
    assert state.procrastinate.version == package_version()
    recorded = connection.execute("select file, version, complete, functions from clerk_procrastinate").fetchall()
    assert recorded == [("schema.sql", str(package_version()), True, function_checksums(connection))]


def test_an_upgraded_schema_equals_a_fresh_one(
    empty: psycopg.Connection, connection: psycopg.Connection, folder: SqlFolder
) -> None:
    build(empty, folder, OLD)
    assert function_checksums(empty) != function_checksums(connection)
    planned = [str(step) for step in Migrator(empty, folder).plan()]
    assert planned[0] == f"upgrade Procrastinate from 3.3.0 to {package_version()}"

    Migrator(empty, folder).up()
    assert function_checksums(empty) == function_checksums(connection)
    assert procrastinate_lines(empty, folder) == procrastinate_lines(connection, folder)
    assert Migrator(empty, folder).plan() == []
    Migrator(empty, folder).down(0)
    assert read_state(empty).tables == {}


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the package's migrations, to which a test may add a future release."""
    copy = tmp_path / "package"
    shutil.copytree(PACKAGE_FILES[0].parent, copy)
    monkeypatch.setattr(schema, "migrations_path", copy)
    return copy


def test_an_interrupted_upgrade_is_continued(
    empty: psycopg.Connection, sql_folder: SqlFolderBuilder, package: Path
) -> None:
    sql_folder.migration("things", "create table things (id int);", "drop table things;")
    build(empty, sql_folder.folder, OLD)
    first = package / "03.05.00_01_pre_one.sql"
    first.write_text("create table procrastinate_once (id int);")
    second = package / "03.05.00_50_post_two.sql"
    second.write_text("select 1 / 0;")
    with pytest.raises(MigrationError, match=rf"Procrastinate's {second.name} failed \(division by zero\)"):
        Migrator(empty, sql_folder.folder).up()
    assert "things" not in read_state(empty).tables

    second.write_text("alter table procrastinate_once add column name text;")
    Migrator(empty, sql_folder.folder).up()
    state = read_state(empty)
    assert state.procrastinate is not None
    assert state.procrastinate.version == package_version()
    assert "things" in state.tables
    assert Migrator(empty, sql_folder.folder).plan() == []


def test_views_do_not_block_an_upgrade(empty: psycopg.Connection, sql_folder: SqlFolderBuilder, package: Path) -> None:
    sql_folder.migration("things", "create table things (id int);", "drop table things;")
    sql_folder.write(
        "views/queues.sql", "-- needs: 0001\ncreate view queues as select queue_name from procrastinate_jobs;"
    )
    Migrator(empty, sql_folder.folder).up()
    empty.execute("update clerk_procrastinate set version = '3.9.0'")
    (package / "03.10.00_01_pre_wider.sql").write_text(
        "alter table procrastinate_jobs alter column queue_name type text;"
    )
    Migrator(empty, sql_folder.folder).up()
    assert empty.execute("select * from queues").fetchall() == []
    assert Migrator(empty, sql_folder.folder).plan() == []


def test_existing_tables_are_used_and_not_dropped(empty: psycopg.Connection, folder: SqlFolder) -> None:
    empty.execute(schema_file().read_bytes())
    empty.execute("insert into procrastinate_jobs (queue_name, task_name) values ('theirs', 'x')")
    before = schema_lines(empty, folder)
    migrator = Migrator(empty, folder)
    assert f"install Procrastinate {package_version()}" not in [str(step) for step in migrator.plan()]
    migrator.up()
    assert migrator.plan() == []
    assert empty.execute("select queue_name from procrastinate_jobs").fetchall() == [("theirs",)]
    assert "procrastinate_jobs" not in migrator.data_loss(0)

    migrator.down(0)
    assert schema_lines(empty, folder) == before
    assert empty.execute("select queue_name from procrastinate_jobs").fetchall() == [("theirs",)]


def test_tables_of_another_version_are_refused(empty: psycopg.Connection, folder: SqlFolder) -> None:
    for file in PACKAGE_FILES:
        if file.name < "03.04":
            empty.execute(file.read_bytes())
    before = schema_lines(empty, folder)
    for operation in (Migrator(empty, folder).plan, Migrator(empty, folder).up):
        with pytest.raises(SchemaMismatch, match=f"those of Procrastinate {package_version()}: upgrade them to"):
            operation()
    assert schema_lines(empty, folder) == before


def test_a_newer_procrastinate_is_refused(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute("update clerk_procrastinate set version = '99.1.0'")
    with pytest.raises(SchemaMismatch, match=f"schema of Procrastinate 99.1.0, this clerk has {package_version()}"):
        Migrator(connection, folder).up()


def test_releases_are_read_from_file_names() -> None:
    assert [str(procrastinate_schema.release_of(file)) for file in PACKAGE_FILES[-2:]] == ["3.4.0", "3.4.0"]
    assert procrastinate_schema.release_of(schema_file()) == package_version()
