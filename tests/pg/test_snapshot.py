"""The committed snapshot is what the migrations make, on every Postgres from the oldest to the newest."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from clerk.pg import snapshot
from clerk.pg.connection import connect_to
from clerk.pg.migrate import Migrator
from clerk.pg.sqlfiles import SqlFolder
from clerk.pg.verify import verify_schema
from tests.conftest import Databases, Url
from tests.pg.legacy import BASELINES, Baseline
from tests.pg.schema import facts


@pytest.fixture
def on_older(older_server: Url) -> Iterator[psycopg.Connection]:
    databases = Databases(older_server)
    with connect_to(databases.create()) as connection:
        yield connection
    databases.drop_all()


def test_committed_snapshot_is_what_the_migrations_make(connection: psycopg.Connection, folder: SqlFolder) -> None:
    assert snapshot.render(snapshot.take(connection, folder)) == folder.read(snapshot.FILE)


def test_an_older_postgres_makes_the_same(on_older: psycopg.Connection, folder: SqlFolder) -> None:
    Migrator(on_older, folder).up()
    assert snapshot.render(snapshot.take(on_older, folder)) == folder.read(snapshot.FILE)
    assert [check.name for check in verify_schema(on_older, folder) if not check.ok] == []


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda baseline: baseline.name)
def test_an_older_postgres_adopts_and_gives_back(
    on_older: psycopg.Connection, folder: SqlFolder, baseline: Baseline
) -> None:
    baseline.build(on_older)
    before = facts(on_older, folder)
    Migrator(on_older, folder).up()
    assert [check.name for check in verify_schema(on_older, folder) if not check.ok] == []
    Migrator(on_older, folder).down(0)
    assert facts(on_older, folder) == before


def test_what_is_rendered_can_be_read_back(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute("comment on table sites is E'two\\nlines'")
    taken = snapshot.take(connection, folder)
    assert snapshot.parse(snapshot.render(taken)) == taken
