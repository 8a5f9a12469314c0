"""`clerk metrics` and `/metrics`, parsed with the parser of prometheus-client."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from clerk.monitoring.metrics import read_metrics, render
from clerk.pipeline import engine
from clerk.reconcile.apply import reconcile, rescue_expired
from clerk.web import db
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from tests.cli.conftest import Clerk
from tests.cli.conftest import clerk_command as clerk_command
from tests.conftest import Url
from tests.engine.helpers import add_site, connect_worker, expire, start

Samples = dict[str, float]
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "metrics.md"


def parsed(text: str) -> Samples:
    """`name{label="value"}` → value."""
    return {
        sample.name + "{" + ",".join(f'{name}="{value}"' for name, value in sample.labels.items()) + "}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def read(connection: psycopg.Connection) -> Samples:
    return parsed(render(read_metrics(connection)))


def test_an_empty_pipeline(connection: psycopg.Connection) -> None:
    samples = read(connection)
    assert samples['clerk_jobs{queue="ocr",status="waiting"}'] == 0
    assert samples['clerk_workers{queue="coordinator"}'] == 0
    assert samples["clerk_health_score{}"] == 100
    assert samples['clerk_repairs_last_hour{kind="lease"}'] == 0
    assert {name: value for name, value in samples.items() if name.startswith("clerk_invariant_violations")} == {
        f'clerk_invariant_violations{{invariant="{name}"}}': 0
        for name in ("I1", "I2", "I3", "I4", "I5", "I7", "I8", "waiting")
    }
    assert not any(name.startswith("clerk_job_duration_seconds") for name in samples), "durations are unknown"


def test_a_working_pipeline(connection: psycopg.Connection, database: Url) -> None:
    with connect_worker(database, "0123456789ab clerk 4711 machine-a") as worker:
        add_site(connection, documents=4)
        start(connection, phase=2)
        worker.finish(worker.take("ocr"))
        worker.finish(worker.take("ocr"), "failed")
        connection.execute("update job_claims set settled_at = claimed_at + interval '4 seconds'")
        lost = worker.take("ocr")
        expire(connection, lost)
        rescue_expired(connection)
        worker.finish(lost)
        worker.check_rejected(lost, "succeeded")
        worker.take("ocr")
        connection.execute(
            "insert into worker_processes (worker_id, holder, queues) values (%s, %s, '{ocr}')",
            [worker.number, worker.name],
        )
        engine.pause_queue(connection, "deploy", "me")
        connection.execute("update sites set fetch_total = 9, updated_at = now() - interval '3 hours'")
        samples = read(connection)
    assert samples['clerk_jobs{queue="ocr",status="waiting"}'] == 1
    assert samples['clerk_jobs{queue="ocr",status="running"}'] == 1
    assert samples['clerk_jobs_ended_last_hour{queue="ocr"}'] == 2
    assert samples['clerk_job_duration_seconds{quantile="0.5",stage="ocr"}'] == 4
    assert samples['clerk_job_queue_seconds{quantile="0.9",stage="ocr"}'] >= 0
    assert samples['clerk_oldest_waiting_seconds{queue="ocr"}'] >= 0
    assert samples['clerk_queue_paused{queue="deploy"}'] == 1
    assert samples['clerk_queue_paused{queue="ocr"}'] == 0
    assert samples['clerk_workers{queue="ocr"}'] >= 1
    assert samples['clerk_failure_percent{stage="ocr"}'] == 25
    assert samples[f'clerk_worker_heartbeat_age_seconds{{host="machine-a",worker="{worker.number}"}}'] >= 0
    assert samples['clerk_repairs_last_hour{kind="lease"}'] == 1
    assert samples["clerk_repairs_failed_last_hour{}"] == 0
    assert samples['clerk_ignored_results_last_hour{why="fenced"}'] == 1
    assert samples['clerk_ignored_results_last_hour{why="stale"}'] == 0
    assert samples['clerk_invariant_violations{invariant="I2"}'] == 1
    assert samples['clerk_sites{stage="ocr"}'] == 1
    assert samples["clerk_sites_stuck{}"] == 0, "one of its jobs is running"
    assert "town" not in render(read_metrics(connection)), "no label names a site"


def test_the_age_of_the_last_finished_reconciliation(connection: psycopg.Connection) -> None:
    name = "clerk_reconciliation_age_seconds{}"
    connection.execute("insert into reconcile_runs (reconciliation) values (gen_random_uuid())")
    assert name not in read(connection), "the only one has not finished"
    reconcile(connection, None)
    assert 0 <= read(connection)[name] < 7200
    connection.execute("update reconcile_runs set ended_at = now() - interval '2 hours' where ended_at is not null")
    add_site(connection)
    reconcile(connection, None, site="town")
    assert read(connection)[name] >= 7200, "that of one site does not count"


def test_missing_and_disabled_triggers_are_counted(
    clerk_command: Clerk, connection: psycopg.Connection, database: Url, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(connection)["clerk_trigger_problems{}"] == 0
    connection.execute("alter table procrastinate_jobs disable trigger clerk_fence")
    connection.execute("drop trigger clerk_record_change on procrastinate_jobs")
    monkeypatch.setenv("DATABASE_URL", database)
    assert parsed(clerk_command("metrics").out)["clerk_trigger_problems{}"] == 2


def test_a_metric_without_samples_is_left_out() -> None:
    metric = GaugeMetricFamily("present", "has a sample", value=1.5)
    (family,) = text_string_to_metric_families(render([metric, GaugeMetricFamily("absent", "has none")]))
    assert (family.name, family.type, [sample.value for sample in family.samples]) == ("present", "gauge", [1.5])


def test_the_dashboard_serves_them_with_its_own_role(database: Url) -> None:
    with ReadOnlyPool(database) as pool:
        pool.assume_role()
        assert pool.role is not None
        client = TestClient(create_app(pool, "open sesame"), base_url="http://localhost")
        assert client.get("/metrics").status_code == 401
        response = client.get("/metrics", headers={"Authorization": "Bearer open sesame"})
    assert (response.status_code, response.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert parsed(response.text)["clerk_health_score{}"] == 100


def test_the_dashboard_reports_a_timeout(
    database: Url, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "_STATEMENT_TIMEOUT", "50ms")
    with ReadOnlyPool(database) as pool, connection.transaction():
        connection.execute("lock table sites")
        response = TestClient(create_app(pool), base_url="http://localhost").get("/metrics")
    assert (response.status_code, response.text) == (503, "the database query timed out\n")


def test_the_command_replaces_its_file(
    clerk_command: Clerk, database: Url, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    assert parsed(clerk_command("metrics").out)["clerk_health_score{}"] == 100
    file = tmp_path / "clerk.prom"
    file.write_text("old")
    before = file.stat().st_ino
    assert clerk_command("metrics", "--output", str(file)).out == ""
    assert parsed(file.read_text())["clerk_health_score{}"] == 100
    assert file.stat().st_ino != before, "replaced by rename"
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.glob("*clerk.prom*")] == ["clerk.prom"]

    assert clerk_command("metrics", "--json", "--output", str(file)).code == 2
    monkeypatch.setenv("DATABASE_URL", "postgresql://me@localhost:1/clerk")
    assert clerk_command("metrics", "--output", str(file)).code == 3
    assert parsed(file.read_text())["clerk_health_score{}"] == 100, "not changed"


def test_a_file_that_cannot_be_written(
    clerk_command: Clerk, database: Url, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    (tmp_path / "file").write_text("")
    outcome = clerk_command("metrics", "--output", str(tmp_path / "file" / "clerk.prom"))
    assert outcome.code == 2
    assert "choose another --output" in outcome.err


def test_every_metric_is_documented(connection: psycopg.Connection) -> None:
    documented = set(re.findall(r"^\| `(clerk_\w+)", DOCUMENTATION.read_text(encoding="utf-8"), re.M))
    assert documented == {metric.name for metric in read_metrics(connection)}
