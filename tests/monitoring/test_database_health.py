"""Alerts and metrics of the database server's state."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from clerk.db.connection import connect_to, read_only_snapshot
from clerk.monitoring import database_health
from clerk.monitoring.alerts import Alert, find_alerts
from clerk.monitoring.metrics import read_metrics, render
from clerk.monitoring.status import read_status
from tests.conftest import Url
from tests.helpers import until
from tests.monitoring.test_metrics import parsed

RULES = Path(__file__).parents[2] / "docs" / "prometheus" / "alerts.yml"


def alerts(connection: psycopg.Connection, **health: Any) -> dict[str, Alert]:
    """The alerts, with these values instead of those of database_health."""
    with read_only_snapshot(connection):
        status = read_status(connection)
    database = replace(status.database, health={**status.database.health, **health})
    return {alert.kind: alert for alert in find_alerts(replace(status, database=database))}


def test_an_old_snapshot(connection: psycopg.Connection, database: Url) -> None:
    with connect_to(database) as reader:
        reader.execute("begin isolation level repeatable read")
        reader.execute("select 1")
        connection.execute("insert into sites (subdomain) values ('town')")
        assert "old_snapshot" not in alerts(connection)
        later = datetime.now(UTC) + timedelta(hours=3)
        connection.execute("select set_config('clerk.now', %s, false)", [later.isoformat()])
        alert = alerts(connection)["old_snapshot"]
        pid = reader.info.backend_pid
        assert alert.what.startswith("vacuum cannot remove dead rows because of session 'clerk' of ")
        assert alert.what.endswith(f"(3 h ago), process {pid})")
        assert alert.remedy == f"unless it is a backup, end it: select pg_terminate_backend({pid})"
        samples = parsed(render(read_metrics(connection)))
        assert samples['clerk_oldest_snapshot_seconds{kind="session"}'] > 10_000
        assert samples['clerk_oldest_snapshot_transactions{kind="session"}'] >= 1


def test_a_session_that_is_idle_in_its_transaction(connection: psycopg.Connection, database: Url) -> None:
    with connect_to(database) as idle:
        idle.execute("begin")
        assert "idle_in_transaction" not in alerts(connection)
        later = datetime.now(UTC) + timedelta(minutes=11)
        connection.execute("select set_config('clerk.now', %s, false)", [later.isoformat()])
        assert "for 11 min" in alerts(connection)["idle_in_transaction"].what
        samples = parsed(render(read_metrics(connection)))
        assert samples["clerk_idle_in_transaction_seconds{}"] > 600
        assert samples['clerk_connections{application="clerk",state="idle in transaction"}'] == 1


def test_late_autovacuum(connection: psycopg.Connection, database: Url) -> None:
    connection.execute("create table sample (n int) with (autovacuum_enabled = false)")
    with connect_to(database) as writer:
        writer.execute("insert into sample select generate_series(1, 12000)")
        writer.execute("delete from sample")
    count = 'clerk_table_dead_rows{table="sample"}'
    until(lambda: parsed(render(read_metrics(connection)))[count] == 12_000)
    alert = alerts(connection)["dead_rows"]
    assert alert.what == "autovacuum is late: dead rows in sample (12,000)"
    connection.execute("vacuum sample")
    assert "dead_rows" not in alerts(connection)
    samples = parsed(render(read_metrics(connection)))
    assert (samples[count], samples['clerk_table_vacuum_threshold{table="sample"}']) == (0, 50)
    assert samples['clerk_table_vacuum_age_seconds{table="sample"}'] >= 0
    assert samples['clerk_table_bytes{table="sites"}'] > 0
    assert samples['clerk_table_index_bytes{table="sites"}'] > 0


def test_index_bloat(connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.execute("create table sample (n int primary key) with (autovacuum_enabled = false)")
    connection.execute("alter table sample owner to clerk_owner")
    connection.execute("insert into sample select generate_series(1, 20000)")
    connection.execute("delete from sample where mod(n, 10) <> 0")
    connection.execute("vacuum analyze sample")
    assert "index_bloat" not in alerts(connection), "too small to matter"
    bloat = parsed(render(read_metrics(connection)))['clerk_index_bloat_bytes{index="sample_pkey",table="sample"}']
    assert bloat > 300_000
    monkeypatch.setattr(database_health, "MIN_BLOAT_BYTES", bloat)
    alert = alerts(connection)["index_bloat"]
    assert alert.what == f"1 index is bloated: sample_pkey ({bloat / 1000:.0f} kB)"
    assert alert.remedy == "rebuild while workers run: clerk db maintain"


def test_connections_and_notifications(connection: psycopg.Connection) -> None:
    limit = {"connection_limit": 100}
    assert "connections" not in alerts(connection, connections=79, **limit)
    assert alerts(connection, connections=80, **limit)["connections"].what == (
        "80 of 100 connections of the database server are used"
    )
    assert "notification_queue" not in alerts(connection, notification_queue_percent=24)
    assert "25 % full" in alerts(connection, notification_queue_percent=25)["notification_queue"].what
    samples = parsed(render(read_metrics(connection)))
    assert 0 < samples["clerk_connections_used{}"] < samples["clerk_connections_limit{}"]
    assert 0 <= samples["clerk_notification_queue_usage_ratio{}"] < 0.01
    assert samples["clerk_database_bytes{}"] > 1_000_000


LIMITS = {
    "ClerkConnectionsHigh": {database_health.MAX_CONNECTIONS_PERCENT / 100},
    "ClerkIdleInTransaction": {database_health.MAX_IDLE_IN_TRANSACTION.total_seconds()},
    "ClerkNotificationQueueFilling": {database_health.MAX_NOTIFICATION_QUEUE_PERCENT / 100},
    "ClerkSnapshotOld": {
        database_health.MAX_SNAPSHOT_AGE.total_seconds(),
        database_health.MAX_SNAPSHOT_TRANSACTIONS,
    },
    "ClerkDeadRows": {database_health.MIN_DEAD_ROWS, database_health.DEAD_ROWS_FACTOR},
    "ClerkIndexBloat": {database_health.MIN_BLOAT_BYTES, database_health.MIN_BLOAT_PERCENT / 100},
}


@pytest.mark.parametrize("name", LIMITS)
def test_prometheus_has_the_same_limits(name: str) -> None:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    (rule,) = [rule for rule in group["rules"] if rule["alert"] == name]
    assert {float(number) for number in re.findall(r"(?<!\w)[\d.]+(?:e\d+)?", rule["expr"])} == LIMITS[name]
