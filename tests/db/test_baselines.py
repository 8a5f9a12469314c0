"""`up` migrates every form of legacy clerk's database without data loss; `down` restores it."""

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
from tests.db.schema import rows, schema_lines, tables

KNOWN_STAGES = {*legacy.STAGES, "completed"}


@pytest.fixture(params=BASELINES, ids=lambda baseline: baseline.name)
def baseline(request: pytest.FixtureRequest) -> Baseline:
    baseline: Baseline = request.param
    return baseline


@pytest.fixture
def legacy_database(baseline: Baseline, new_database: Callable[[], Url]) -> Iterator[psycopg.Connection]:
    """A connection to a legacy database that is not migrated yet, with a time zone other than UTC."""
    with connect_to(new_database()) as connection:
        baseline.build(connection)
        connection.execute("set timezone = 'America/New_York'")
        yield connection


@pytest.fixture
def old_owner(server: Url) -> Iterator[str]:
    """The role that legacy clerk and its web site use."""
    name = f"old_clerk_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
        yield name
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def as_migrated(row: dict[str, Any]) -> dict[str, Any]:
    """The expected values of a row of the legacy table `sites` after `up`, in its old columns."""
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


def test_up_creates_the_current_schema_and_keeps_additional_objects(
    legacy_database: psycopg.Connection, connection: psycopg.Connection, folder: SqlFolder
) -> None:
    fresh = schema_snapshot.take(connection, folder)
    before = schema_snapshot.take(legacy_database, folder)
    Migrator(legacy_database, folder).up()
    after = schema_snapshot.take(legacy_database, folder)

    assert not any(schema_snapshot.missing(after, fresh).values())
    additional = schema_snapshot.missing(fresh, after)
    assert not any(schema_snapshot.missing(before, additional).values()), "all of that existed before"
    replaced = [line for lines in schema_snapshot.missing(after, before).values() for line in lines]
    expected = re.compile(
        r"alter table sites (set \(fillfactor=90\);|add column (\w+_(total|completed|failed)"
        r"|coordinator_enqueued|extraction_status|started_at|updated_at|last_error_at) )"
        r"|comment on (table sites|column sites.(status|current_stage|coordinator_enqueued)) "
    )
    assert [line for line in replaced if not expected.match(line)] == []
    assert all(check.ok for check in verify_schema(legacy_database, folder))


def test_up_keeps_every_row_and_every_value(legacy_database: psycopg.Connection, folder: SqlFolder) -> None:
    before = {table: rows(legacy_database, table) for table in tables(legacy_database)}
    Migrator(legacy_database, folder).up()
    after = {table: rows(legacy_database, table) for table in before}

    in_old_columns = [{name: row[name] for name in before["sites"][0]} for row in after["sites"]]
    assert in_old_columns == [as_migrated(row) for row in before["sites"]]
    for table in before:
        if table != "sites":
            assert after[table] == before[table]


def test_down_restores_the_schema_and_every_value(
    legacy_database: psycopg.Connection, folder: SqlFolder, old_owner: str
) -> None:
    legacy_database.execute(sql.SQL("alter table sites owner to {}").format(sql.Identifier(old_owner)))
    legacy_database.execute(sql.SQL("grant select on sites to {}").format(sql.Identifier("pg_monitor")))
    before = schema_lines(legacy_database, folder)
    values = {table: rows(legacy_database, table) for table in tables(legacy_database)}

    Migrator(legacy_database, folder).up()
    assert schema_lines(legacy_database, folder) != before
    lost = Migrator(legacy_database, folder).data_loss(0)
    assert not {name for name in lost if name == "sites" or name.startswith("legacy_")}, "these rows are restored"
    Migrator(legacy_database, folder).down(0)

    assert schema_lines(legacy_database, folder) == before
    assert {table: rows(legacy_database, table) for table in tables(legacy_database)} == values

    Migrator(legacy_database, folder).up()
    assert all(check.ok for check in verify_schema(legacy_database, folder))
    legacy_database.execute(
        sql.SQL("alter table sites owner to current_user; drop owned by {}").format(sql.Identifier(old_owner))
    )


@pytest.mark.parametrize("baseline", [legacy.CREATE_ALL], ids=["create_all"])
def test_down_keeps_later_changes(legacy_database: psycopg.Connection, folder: SqlFolder, baseline: Baseline) -> None:
    Migrator(legacy_database, folder).up()
    legacy_database.execute(
        "update sites set current_stage = 'deploy', ocr_completed = 7, coordinator_enqueued = true, name = 'New'"
        " where subdomain = 'o''brien'"
    )
    legacy_database.execute("insert into sites (subdomain) values ('newtown')")
    legacy_database.execute("alter table sites add column notes text default 'mine'")
    legacy_database.execute("create index idx_sites_notes on sites (notes)")
    Migrator(legacy_database, folder).down(0)

    by_subdomain = {row["subdomain"]: row for row in rows(legacy_database, "sites")}
    assert set(by_subdomain) == {"springfield", "o'brien", "zürich.gemeinde", "emptyville", "newtown"}
    changed = by_subdomain["o'brien"]
    assert (changed["current_stage"], changed["ocr_completed"], changed["name"]) == ("deploy", 7, "New")
    assert changed["coordinator_enqueued"] is True
    assert changed["deploy_failed"] == -2_000_000_000, "this value was not changed"
    assert {row["notes"] for row in by_subdomain.values()} == {"mine"}
    assert legacy_database.execute("select to_regclass('idx_sites_notes') is not null").fetchone() == (True,)


@pytest.mark.parametrize("baseline", [legacy.ALEMBIC], ids=["alembic"])
def test_the_legacy_role_keeps_its_access(
    legacy_database: psycopg.Connection, folder: SqlFolder, old_owner: str, baseline: Baseline
) -> None:
    """A web site reads and writes `sites` as its former owner, also after clerk_owner has become the owner."""
    legacy_database.execute(sql.SQL("alter table sites owner to {}").format(sql.Identifier(old_owner)))
    Migrator(legacy_database, folder).up()
    legacy_database.execute(sql.SQL("set role {}").format(sql.Identifier(old_owner)))
    legacy_database.execute("update sites set name = 'Springfield, IL' where subdomain = 'springfield'")
    assert legacy_database.execute("select count(*) from sites").fetchone() == (4,)
    legacy_database.execute("reset role")
    legacy_database.execute(sql.SQL("drop owned by {}").format(sql.Identifier(old_owner)))


@pytest.mark.parametrize("baseline", [legacy.RAW_SCRIPT], ids=["raw script"])
def test_a_view_that_blocks_a_column_change_is_named(
    legacy_database: psycopg.Connection, folder: SqlFolder, baseline: Baseline
) -> None:
    legacy_database.execute("create view progress as select subdomain, updated_at from sites")
    before = schema_snapshot.take(legacy_database, folder)
    with pytest.raises(MigrationError, match=r"0001_sites failed .*view progress depends on column .updated_at"):
        Migrator(legacy_database, folder).up()
    after = schema_snapshot.take(legacy_database, folder)
    assert not any(schema_snapshot.missing(after, before).values())
    assert [line for line in after["columns"] if line not in before["columns"] and "table sites" in line] == []


@pytest.mark.parametrize("baseline", [legacy.CREATE_ALL], ids=["create_all"])
def test_an_index_of_another_form_is_replaced_and_restored(
    baseline: Baseline, legacy_database: psycopg.Connection, folder: SqlFolder
) -> None:
    legacy_database.execute("create index idx_sites_coordinator_enqueued on sites (coordinator_enqueued, name)")
    before = schema_lines(legacy_database, folder)
    Migrator(legacy_database, folder).up()
    assert [check for check in verify_schema(legacy_database, folder) if not check.ok] == []
    Migrator(legacy_database, folder).down(0)
    assert schema_lines(legacy_database, folder) == before
