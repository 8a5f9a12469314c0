"""The committed snapshot equals the migrated schema on every supported Postgres version."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.db.migrations import schema_snapshot
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.db.migrations.verify import verify_schema
from tests.conftest import Databases, Url
from tests.db.legacy import BASELINES, Baseline
from tests.db.schema import schema_lines


@pytest.fixture
def on_older(older_server: Url) -> Iterator[psycopg.Connection]:
    databases = Databases(older_server)
    with connect_to(databases.create()) as connection:
        yield connection
    databases.drop_all()


def test_the_committed_snapshot_equals_the_migrated_schema(connection: psycopg.Connection, folder: SqlFolder) -> None:
    assert schema_snapshot.render(schema_snapshot.take(connection, folder)) == folder.read(schema_snapshot.FILE)


def test_an_older_postgres_has_the_same_schema(on_older: psycopg.Connection, folder: SqlFolder) -> None:
    Migrator(on_older, folder).up()
    assert schema_snapshot.render(schema_snapshot.take(on_older, folder)) == folder.read(schema_snapshot.FILE)
    assert [check.name for check in verify_schema(on_older, folder) if not check.ok] == []


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda baseline: baseline.name)
def test_an_older_postgres_migrates_a_legacy_database_up_and_down(
    on_older: psycopg.Connection, folder: SqlFolder, baseline: Baseline
) -> None:
    baseline.build(on_older)
    before = schema_lines(on_older, folder)
    Migrator(on_older, folder).up()
    assert [check.name for check in verify_schema(on_older, folder) if not check.ok] == []
    Migrator(on_older, folder).down(0)
    assert schema_lines(on_older, folder) == before


def test_a_rendered_snapshot_can_be_parsed(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute("comment on table sites is E'two\\nlines'")
    taken = schema_snapshot.take(connection, folder)
    assert schema_snapshot.parse(schema_snapshot.render(taken)) == taken
