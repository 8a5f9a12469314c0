"""`clerk metrics --otlp`, received by a collector."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from clerk.cli import up
from clerk.errors import EXIT_FAILURE, EXIT_OK, EXIT_USAGE
from clerk.monitoring.metrics import read_metrics
from tests.cli.conftest import Clerk
from tests.cli.conftest import clerk_command as clerk_command
from tests.conftest import Url
from tests.helpers import until
from tests.monitoring.test_metrics import read
from tests.telemetry.collector import Collector

ROOT = Path(__file__).parents[2]


class Command:
    def __init__(self, database: Url, folder: Path, *options: str, **variables: str) -> None:
        self.log = folder / "metrics.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "clerk", "metrics", "--otlp", *options],
                env={**os.environ, "DATABASE_URL": database, "PYTHONPATH": str(ROOT), **variables},
                cwd=folder,
                stdout=output,
                stderr=output,
            )

    def has_logged(self, text: str) -> bool:
        return text in self.log.read_text()


def test_the_collector_receives_what_prometheus_reads(
    collector: Collector, connection: psycopg.Connection, database: Url, tmp_path: Path
) -> None:
    connection.execute("insert into sites (subdomain, name) values ('springfield', 'Springfield'), ('ogdenville', 'O')")
    connection.execute("select clerk_start_run('springfield')")
    command = Command(database, tmp_path, "--once", **collector.variables)
    assert command.process.wait() == EXIT_OK, command.log.read_text()
    (received,) = collector.metrics
    expected = read(connection)

    def comparable(samples: dict[str, float]) -> dict[str, float]:
        """Without what changes between two looks: durations, sessions and the statistics of Postgres."""
        changing = ("clerk_connections", "clerk_database_", "clerk_table_", "clerk_index_", "clerk_oldest_snapshot")
        return {
            name: value for name, value in samples.items() if "seconds{" not in name and not name.startswith(changing)
        }

    assert comparable(received)
    assert comparable(received) == comparable(expected)
    # Sessions of other clients may have ended since.
    names = {metric.name for metric in read_metrics(connection) if metric.samples}
    assert names <= {name.partition("{")[0] for name in received}
    (resource,) = collector.resources
    assert (resource["service.name"], resource["service.instance.id"]) == ("clerk", "metrics")


def test_the_export_continues_without_the_database_and_without_the_collector(
    collector: Collector, connection: psycopg.Connection, server: Url, database: Url, tmp_path: Path
) -> None:
    command = Command(database, tmp_path, **{**collector.variables, "OTEL_METRIC_EXPORT_INTERVAL": "50"})
    try:
        until(lambda: len(collector.metrics) >= 2)
        allow = sql.SQL("alter database {} allow_connections {}")
        name = sql.Identifier(connection.info.dbname)
        with psycopg.connect(server, autocommit=True) as administrator:
            administrator.execute(allow.format(name, sql.SQL("false")))
            until(lambda: command.has_logged("no metrics are exported, because they cannot be read: "))
            administrator.execute(allow.format(name, sql.SQL("true")))
        connection.execute("insert into sites (subdomain, name) values ('springfield', 'Springfield')")
        until(lambda: collector.metrics[-1].get('clerk_sites{stage="never run"}') == 1)

        collector.status = 400
        until(lambda: command.has_logged("1 snapshots of the metrics were lost so far: "))
        collector.status = 200
        until(lambda: command.has_logged("are exported again"))
    finally:
        command.process.send_signal(signal.SIGTERM)
        command.process.wait()
    assert command.process.returncode == EXIT_OK
    assert command.has_logged("snapshots of the metrics were not exported")


def test_once_fails_if_the_collector_is_down(database: Url, tmp_path: Path) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT": "0.1"}
    command = Command(database, tmp_path, "--once", **variables)
    assert command.process.wait() == EXIT_FAILURE
    assert command.has_logged("the collector did not accept the metrics")


@pytest.mark.parametrize(
    ("variables", "options", "message"),
    [
        ({}, ("--otlp",), "set OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, ("--otlp", "--json"), "omit --json"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_METRIC_EXPORT_INTERVAL": "1m"},
            ("--otlp",),
            "OTEL_METRIC_EXPORT_INTERVAL is '1m'",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            ("--otlp",),
            "over http/protobuf, not grpc",
        ),
        ({}, ("--once",), "--once is for --otlp"),
    ],
    ids=["no endpoint", "json", "interval", "protocol", "once"],
)
def test_wrong_usage(
    clerk_command: Clerk,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    options: tuple[str, ...],
    message: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = clerk_command("metrics", *options)
    assert (result.code, message in result.err) == (EXIT_USAGE, True)


def test_clerk_up_exports_metrics_if_there_is_an_endpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up._metrics_specs() == []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    (spec,) = up._metrics_specs()
    assert spec.arguments == ("metrics", "--otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert up._metrics_specs() == []
    assert "pip install 'clerk[otel]'" in capsys.readouterr().err
