"""`up` adopts every form of the older clerk's database and loses nothing; `down` gives back what it found."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg import sql

from clerk.db.connection import connect_to
from clerk.db.migrations import schema_snapshot
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.db.migrations.verify import verify_schema
from clerk.errors import MigrationError
from tests.conftest import Url
from tests.db import legacy
from tests.db.legacy import BASELINES, COUNTERS, Baseline
from tests.db.schema import facts, rows, tables

KNOWN_STAGES = {*legacy.STAGES, "completed"}


@pytest.fixture(params=BASELINES, ids=lambda baseline: baseline.name)
def baseline(request: pytest.FixtureRequest) -> Baseline:
    found: Baseline = request.param
    return found


@pytest.fixture
def adopted(baseline: Baseline, new_database: Callable[[], Url]) -> Iterator[psycopg.Connection]:
    """A connection to the older clerk's database, not migrated yet, from a machine far from Greenwich."""
    with connect_to(new_database()) as connection:
        baseline.build(connection)
        connection.execute("set timezone = 'America/New_York'")
        yield connection


@pytest.fixture
def old_owner(server: Url) -> Iterator[str]:
    """The role with which the older clerk and its web site went on working."""
    name = f"old_clerk_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
        yield name
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def as_adopted(row: dict[str, Any]) -> dict[str, Any]:
    """What a row of the older `sites` reads as afterwards, in the columns that it had."""
    changed = dict(row)
    for name in COUNTERS:
        if name in row:
            changed[name] = max(row[name] or 0, 0)
    if "coordinator_enqueued" in row:
        changed["coordinator_enqueued"] = bool(row["coordinator_enqueued"])
    if "current_stage" in row and row["current_stage"] not in KNOWN_STAGES:
        changed["current_stage"] = None
    for name, value in row.items():
        if isinstance(value, datetime) and value.tzinfo is None:
            changed[name] = value.replace(tzinfo=UTC)
    return changed


def test_up_makes_a_fresh_database_of_it_and_keeps_what_more_it_had(
    adopted: psycopg.Connection, connection: psycopg.Connection, folder: SqlFolder
) -> None:
    fresh = schema_snapshot.take(connection, folder)
    before = schema_snapshot.take(adopted, folder)
    Migrator(adopted, folder).up()
    after = schema_snapshot.take(adopted, folder)

    assert not any(schema_snapshot.missing(after, fresh).values())
    more_than_fresh = schema_snapshot.missing(fresh, after)
    assert not any(schema_snapshot.missing(before, more_than_fresh).values()), "all of that was there before"
    replaced = [line for lines in schema_snapshot.missing(after, before).values() for line in lines]
    expected = re.compile(
        r"alter table sites (set \(fillfactor=90\);|add column (\w+_(total|completed|failed)"
        r"|coordinator_enqueued|extraction_status|started_at|updated_at|last_error_at) )"
        r"|comment on (table sites|column sites.status) "
    )
    assert [line for line in replaced if not expected.match(line)] == []
    assert all(check.ok for check in verify_schema(adopted, folder))


def test_up_keeps_every_row_and_every_value(adopted: psycopg.Connection, folder: SqlFolder) -> None:
    before = {table: rows(adopted, table) for table in tables(adopted)}
    Migrator(adopted, folder).up()
    after = {table: rows(adopted, table) for table in before}

    in_old_columns = [{name: row[name] for name in before["sites"][0]} for row in after["sites"]]
    assert in_old_columns == [as_adopted(row) for row in before["sites"]]
    for table in before:
        if table != "sites":
            assert after[table] == before[table]


def test_down_gives_back_the_schema_and_every_value_it_found(
    adopted: psycopg.Connection, folder: SqlFolder, old_owner: str
) -> None:
    adopted.execute(sql.SQL("alter table sites owner to {}").format(sql.Identifier(old_owner)))
    adopted.execute(sql.SQL("grant select on sites to {}").format(sql.Identifier("pg_monitor")))
    before = facts(adopted, folder)
    values = {table: rows(adopted, table) for table in tables(adopted)}

    Migrator(adopted, folder).up()
    assert facts(adopted, folder) != before
    lost = Migrator(adopted, folder).data_loss(0)
    assert not {name for name in lost if name == "sites" or name.startswith("adopted_")}, "that is given back, not lost"
    Migrator(adopted, folder).down(0)

    assert facts(adopted, folder) == before
    assert {table: rows(adopted, table) for table in tables(adopted)} == values

    Migrator(adopted, folder).up()
    assert all(check.ok for check in verify_schema(adopted, folder))
    adopted.execute(
        sql.SQL("alter table sites owner to current_user; drop owned by {}").format(sql.Identifier(old_owner))
    )


@pytest.mark.parametrize("baseline", [legacy.CREATE_ALL], ids=["create_all"])
def test_down_keeps_what_was_written_since(adopted: psycopg.Connection, folder: SqlFolder, baseline: Baseline) -> None:
    Migrator(adopted, folder).up()
    adopted.execute(
        "update sites set current_stage = 'deploy', ocr_completed = 7, coordinator_enqueued = true, name = 'New'"
        " where subdomain = 'o''brien'"
    )
    adopted.execute("insert into sites (subdomain) values ('newtown')")
    adopted.execute("alter table sites add column notes text default 'mine'")
    adopted.execute("create index idx_sites_notes on sites (notes)")
    Migrator(adopted, folder).down(0)

    found = {row["subdomain"]: row for row in rows(adopted, "sites")}
    assert set(found) == {"springfield", "o'brien", "zürich.gemeinde", "emptyville", "newtown"}
    changed = found["o'brien"]
    assert (changed["current_stage"], changed["ocr_completed"], changed["name"]) == ("deploy", 7, "New")
    assert changed["coordinator_enqueued"] is True
    assert changed["deploy_failed"] == -2_000_000_000, "nobody had touched that one"
    assert {row["notes"] for row in found.values()} == {"mine"}
    assert adopted.execute("select to_regclass('idx_sites_notes') is not null").fetchone() == (True,)


@pytest.mark.parametrize("baseline", [legacy.ALEMBIC], ids=["alembic"])
def test_the_older_systems_user_goes_on_working(
    adopted: psycopg.Connection, folder: SqlFolder, old_owner: str, baseline: Baseline
) -> None:
    """A web site reads and writes `sites` as the role that owned it, also after clerk_owner has taken it over."""
    adopted.execute(sql.SQL("alter table sites owner to {}").format(sql.Identifier(old_owner)))
    Migrator(adopted, folder).up()
    adopted.execute(sql.SQL("set role {}").format(sql.Identifier(old_owner)))
    adopted.execute("update sites set name = 'Springfield, IL' where subdomain = 'springfield'")
    assert adopted.execute("select count(*) from sites").fetchone() == (4,)
    adopted.execute("reset role")
    adopted.execute(sql.SQL("drop owned by {}").format(sql.Identifier(old_owner)))


@pytest.mark.parametrize("baseline", [legacy.RAW_SCRIPT], ids=["raw script"])
def test_a_view_on_a_column_that_must_change_is_named(
    adopted: psycopg.Connection, folder: SqlFolder, baseline: Baseline
) -> None:
    adopted.execute("create view progress as select subdomain, updated_at from sites")
    before = schema_snapshot.take(adopted, folder)
    with pytest.raises(MigrationError, match=r"0001_sites failed .*view progress depends on column .updated_at"):
        Migrator(adopted, folder).up()
    after = schema_snapshot.take(adopted, folder)
    assert not any(schema_snapshot.missing(after, before).values())
    assert [line for line in after["columns"] if line not in before["columns"] and "table sites" in line] == []
