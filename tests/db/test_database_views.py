"""The views of the database server's state: dead rows, index bloat, snapshots, connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from tests.conftest import NO_FSYNC, Databases, Url, running
from tests.db.conftest import copy_data_directory
from tests.helpers import until

Row = dict[str, Any]


def view(connection: psycopg.Connection, name: str) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql.SQL("select * from {}").format(sql.Identifier(name))).fetchall()


def index(connection: psycopg.Connection, name: str) -> Row:
    return next(row for row in view(connection, "index_bloat") if row["index_name"] == name)


def table(connection: psycopg.Connection, name: str) -> Row:
    return next(row for row in view(connection, "table_health") if row["table_name"] == name)


@contextmanager
def session(url: Url, name: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True, application_name=name) as connection:
        yield connection


# Index bloat

KEYS = {
    "unique": "create unique index {} on sample (n)",
    "uuid": "create unique index {} on sample (u)",
    "text": "create unique index {} on sample (t)",
    "columns": "create index {} on sample (q, n)",
    "duplicates": "create index {} on sample (q)",
    "few duplicates": "create index {} on sample ((n / 4))",
    "nulls": "create index {} on sample (u, sparse)",
    "partial": "create index {} on sample (n, q) where mod(n, 3) = 0",
    "fillfactor": "create index {} on sample (n) with (fillfactor = 60)",
}


@pytest.fixture
def sample(connection: psycopg.Connection) -> psycopg.Connection:
    """A table with an index of each kind, of which four fifths of the rows were deleted."""
    connection.execute("create table sample (n bigint, q text, t text, u uuid, sparse int)")
    connection.execute("alter table sample owner to clerk_owner")
    for name, command in KEYS.items():
        connection.execute(sql.SQL(command).format(sql.Identifier(name)))
    connection.execute(
        "insert into sample select n, 'queue ' || mod(n, 7), 'documents/' || n || '.pdf', gen_random_uuid(),"
        " case when mod(n, 2) = 0 then n end from generate_series(1, 30000) n"
    )
    connection.execute("delete from sample where mod(n / 4, 5) <> 0")
    connection.execute("vacuum analyze sample")
    return connection


def test_the_estimate_is_the_size_after_a_reindex(sample: psycopg.Connection) -> None:
    estimates = {name: index(sample, name) for name in KEYS}
    sample.execute("reindex table sample")
    for name, estimate in estimates.items():
        size = index(sample, name)["size_bytes"]
        assert abs(estimate["expected_bytes"] - size) <= max(0.1 * size, 2 * 8192), f"{name}: {estimate}, really {size}"
        assert estimate["bloat_bytes"] == estimate["size_bytes"] - estimate["expected_bytes"]
        assert estimate["bloat_percent"] > 60, name
        assert index(sample, name)["bloat_percent"] < 15, name


def test_rows_added_after_the_last_analyze_are_no_bloat(sample: psycopg.Connection) -> None:
    sample.execute("reindex table sample")
    sample.execute("alter table sample set (autovacuum_enabled = false)")
    sample.execute("insert into sample (n, u, t) select n, gen_random_uuid(), n from generate_series(100000, 120000) n")
    grown = index(sample, "unique")
    assert grown["size_bytes"] > 3 * grown["expected_bytes"]
    assert grown["bloat_percent"] < 15


def test_without_statistics_the_estimate_is_unknown(connection: psycopg.Connection) -> None:
    connection.execute("create table sample (n int primary key)")
    assert index(connection, "sample_pkey")["bloat_bytes"] is None


def test_the_dashboard_sees_the_estimate(sample: psycopg.Connection) -> None:
    """pg_stats hides the columns of tables that a user may not read."""
    expected = index(sample, "unique")
    sample.execute("set role clerk_dashboard")
    assert index(sample, "unique") == expected


# Tables


def test_the_vacuum_threshold_is_that_of_autovacuum(connection: psycopg.Connection) -> None:
    """Settings of the server, of the table, and the number of rows."""
    connection.execute("create table sample as select n from generate_series(1, 1000) n")
    connection.execute("analyze sample")
    assert table(connection, "sample")["vacuum_threshold"] == 250
    connection.execute("alter table sample set (autovacuum_vacuum_scale_factor = 0.5, autovacuum_vacuum_threshold = 7)")
    assert table(connection, "sample")["vacuum_threshold"] == 507
    if connection.info.server_version >= 180000:
        connection.execute("alter table sample set (autovacuum_vacuum_max_threshold = 400)")
        assert table(connection, "sample")["vacuum_threshold"] == 400
        connection.execute("alter table sample set (autovacuum_vacuum_max_threshold = -1)")
        assert table(connection, "sample")["vacuum_threshold"] == 507


def test_dead_rows_and_sizes(connection: psycopg.Connection, database: Url) -> None:
    connection.execute("create table sample (n int primary key, other int) with (autovacuum_enabled = false)")
    assert table(connection, "sample")["last_vacuum"] is None
    with session(database, "writer") as writer:
        writer.execute("insert into sample select n from generate_series(1, 1000) n")
        writer.execute("delete from sample where n <= 300")
    until(lambda: table(connection, "sample")["dead_rows"] == 300)
    connection.execute("vacuum sample")
    row = table(connection, "sample")
    assert (row["dead_rows"], row["last_vacuum"] is None, row["last_autovacuum"]) == (0, False, None)
    assert connection.execute("select pg_table_size('sample'), pg_indexes_size('sample')").fetchone() == (
        row["table_bytes"],
        row["index_bytes"],
    )


# Snapshots and connections


def test_who_holds_a_snapshot(connection: psycopg.Connection, database: Url) -> None:
    def holders() -> dict[str, Row]:
        return {row["holder"]: row for row in view(connection, "snapshot_holders")}

    with session(database, "reader") as reader, session(database, "writer") as writer:
        assert {"reader", "writer"}.isdisjoint(holders())
        reader.execute("begin isolation level repeatable read")
        reader.execute("select 1")
        # Has no snapshot, but an id: rows that it deletes may become alive again.
        writer.execute("begin")
        writer.execute("insert into sites (subdomain) values ('town')")
        until(lambda: holders().get("reader", {}).get("state") == "idle in transaction")
        held = holders()
        assert (held["reader"]["kind"], held["reader"]["pid"]) == ("session", reader.info.backend_pid)
        assert held["reader"]["since"] is not None
        assert held["writer"]["transactions"] >= 1
        connection.execute("insert into sites (subdomain) values ('city')")
        assert holders()["reader"]["transactions"] == held["reader"]["transactions"] + 1
        (health,) = view(connection, "database_health")
        assert health["oldest_snapshot"].total_seconds() >= 0
        assert health["oldest_snapshot_transactions"] == holders()["reader"]["transactions"]


def test_the_dashboard_sees_sessions_of_other_users(connection: psycopg.Connection, database: Url) -> None:
    with session(database, "elsewhere") as other:
        other.execute("begin isolation level repeatable read")
        other.execute("select 1")
        connection.execute("set role clerk_dashboard")
        until(lambda: any(row["state"] == "idle in transaction" for row in view(connection, "connections")))
        (row,) = [row for row in view(connection, "snapshot_holders") if row["holder"] == "elsewhere"]
        assert (row["user_name"], row["since"] is None) == (other.info.user, False)
        hidden = connection.execute("select query from pg_stat_activity where application_name = 'elsewhere'")
        assert hidden.fetchone() == ("<insufficient privilege>",), "only through the views, without queries"
        connection.execute("reset role")


def test_connections(connection: psycopg.Connection, database: Url) -> None:
    with (
        session(database, "0123456789ab clerk 4711 machine-a"),
        session(database, "ba9876543210 clerk 4712 machine-b"),
        session(database, "psql") as psql,
    ):
        psql.execute("begin")
        rows = until(
            lambda: [
                row
                for row in view(connection, "connections")
                if (row["application"], row["state"]) == ("psql", "idle in transaction")
            ]
        )
        assert [(row["connections"], row["longest_pid"]) for row in rows] == [(1, psql.info.backend_pid)]
        workers = [row for row in view(connection, "connections") if row["application"] == "clerk worker"]
        assert sum(row["connections"] for row in workers) == 2
        (health,) = view(connection, "database_health")
        assert health["connections"] >= 4
        assert health["idle_in_transaction"] == 1
        assert health["longest_idle_in_transaction"].total_seconds() >= 0
    limit = connection.execute(
        "select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
        " - coalesce(current_setting('reserved_connections', true)::int, 0)"
    ).fetchone()
    assert limit == (health["connection_limit"],)
    assert 0 <= health["notification_queue_percent"] < 1


def test_prepared_transactions_and_replication_slots(data_directory: Path, tmp_path: Path, folder: SqlFolder) -> None:
    options = NO_FSYNC | {"max_prepared_transactions": "2", "wal_level": "logical"}
    server = Server(tmp_path / "postgres", options=options)
    copy_data_directory(data_directory, server.data)
    with running(server) as url, connect_to(Databases(url).create()) as connection:
        Migrator(connection, folder).up()
        connection.execute("select pg_create_logical_replication_slot('replica', 'pgoutput')")
        connection.execute("begin")
        connection.execute("insert into sites (subdomain) values ('town')")
        connection.execute("prepare transaction 'forgotten'")
        held = {row["kind"]: row for row in view(connection, "snapshot_holders")}
        assert {"prepared transaction", "replication slot"} <= held.keys()
        prepared, slot = held["prepared transaction"], held["replication slot"]
        assert (prepared["holder"], prepared["user_name"], prepared["since"] is None) == (
            "forgotten",
            "clerk",
            False,
        )
        assert (slot["holder"], slot["state"]) == ("replica", "inactive")
        assert slot["transactions"] > 0
        assert (slot["since"] is None) == (connection.info.server_version < 170000)
        connection.execute("rollback prepared 'forgotten'")
        connection.execute("select pg_drop_replication_slot('replica')")
        assert {row["kind"] for row in view(connection, "snapshot_holders")} <= {"session"}
