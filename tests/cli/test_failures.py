"""`clerk failures`: the table, the remedies, and the retry of the selected failures only."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from clerk.errors import PdfEncrypted, PdfTimeout
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.engine.helpers import Worker, add_site, connect_worker, drain, rows, site, unit
from tests.monitoring.workers import fail_schedule


@pytest.fixture(autouse=True)
def _database(monkeypatch: pytest.MonkeyPatch, database: Url) -> None:
    monkeypatch.setenv("DATABASE_URL", database)


@pytest.fixture
def worker(database: Url) -> Iterator[Worker]:
    with connect_worker(database, "a worker") as worker:
        yield worker


def run(worker: Worker, subdomain: str, failing: dict[int, str], stage: str = "ocr") -> None:
    """A run in which these items fail with these errors."""
    worker.connection.execute("select clerk_start_run(%s)", [subdomain])
    while job := worker.fetch():
        if job.queue == "coordinator":
            worker.coordinate(job)
            continue
        code = failing.get(job.args["content_item_id"]) if job.queue == stage else None
        assert worker.finish(job, "failed" if code else "succeeded", code or "", "the reason" if code else "")


def test_nothing_failed(clerk_command: Clerk) -> None:
    assert clerk_command("failures").out == "Nothing has failed.\n"


def test_failing_periodic_tasks_are_mentioned(
    connection: psycopg.Connection, worker: Worker, clerk_command: Clerk
) -> None:
    """They have no site: nothing had failed, although no run was started."""
    fail_schedule(connection, worker)
    result = clerk_command("failures")
    assert result.out == "No job of a site has failed.\n"
    assert result.err.startswith(
        "clerk: the periodic task clerk.schedule failed the last time (DatabaseFailed: permission denied for view x):"
        " no run that is due is started: "
    )
    add_site(connection)
    result = clerk_command("failures", "--site", "town")
    assert (result.out, result.err) == ("No failure matches these options.\n", "")


def test_the_table_counts_each_failure_once_by_its_age(
    connection: psycopg.Connection, worker: Worker, clerk_command: Clerk
) -> None:
    items = add_site(connection, documents=6)
    connection.execute("update content_items set source_url = 'https://x.org/a.pdf?b=1' where id = %s", [items[0]])
    run(worker, "town", {**dict.fromkeys(items[:4], "PdfEncrypted"), items[4]: "PdfTimeout"})
    for item, age in zip(items, ("0 min", "2 hours", "3 days", "30 days"), strict=False):
        connection.execute(
            "update content_item_pipeline_state set last_attempt_at = now() - %s::interval"
            " where content_item_id = %s and pipeline = 'ocr'",
            [age, item],
        )
    result = clerk_command("failures")
    assert result.code == 0
    header, encrypted, timeout, *rest = result.out.splitlines()
    assert header.split() == ["error", "stage", "1", "h", "24", "h", "7", "d", "older", "all", "sites", "permanent"]
    assert encrypted.split() == ["PdfEncrypted", "ocr", "1", "1", "1", "1", "4", "1", "4"]
    assert timeout.split() == ["PdfTimeout", "ocr", "1", "1", "1", "1"]
    assert f"PdfEncrypted in ocr: {PdfEncrypted.remedy}." in rest
    assert "  town Council 2000-01-02 (a.pdf): the reason" in rest
    assert "  town Council 2000-01-03: the reason" in rest
    retry = clerk_command("retry", "town", "--dry-run").out.splitlines()
    assert retry[0] == "  OCR: 4 with PdfEncrypted"
    assert retry[1].startswith("    a retry cannot help Council 2000-01-02 (a.pdf); Council 2000-01-03; ")
    assert retry[1].endswith(f" and 1 more: {PdfEncrypted.remedy}")
    assert retry[2] == "  OCR: 1 with PdfTimeout"
    by_error = {group["error_code"]: group for group in json.loads(clerk_command("failures", "--json").out)}
    assert by_error["PdfEncrypted"]["by_age"] == {"1 h": 1, "24 h": 1, "7 d": 1, "older": 1}
    assert len(by_error["PdfEncrypted"]["examples"]) == 3
    assert by_error["PdfTimeout"]["remedy"] == PdfTimeout.remedy


def test_options_select_failures(connection: psycopg.Connection, worker: Worker, clerk_command: Clerk) -> None:
    for name in ("town", "city"):
        items = add_site(connection, name, documents=2)
        run(worker, name, {items[0]: "PdfEncrypted", items[1]: "PdfTimeout"})
    (group,) = json.loads(clerk_command("failures", "--error", "PdfTimeout", "--site", "city", "--json").out)
    assert (group["error_code"], group["units"], group["sites"]) == ("PdfTimeout", 1, 1)
    assert json.loads(clerk_command("failures", "--stage", "deploy", "--json").out) == []


def test_retry_after_the_run_processes_the_selected_units_only(
    connection: psycopg.Connection, worker: Worker, clerk_command: Clerk
) -> None:
    items = {}
    for name in ("town", "city"):
        items[name] = add_site(connection, name, documents=3)
        run(worker, name, {items[name][0]: "ReaderCrashed", items[name][1]: "PdfEncrypted"})
    before = rows(connection, "select run_id from sites order by subdomain")
    dry = clerk_command("failures", "--error", "ReaderCrashed", "--retry", "--dry-run")
    assert dry.code == 0
    assert dry.out.endswith("planned, not done (dry run): 2 jobs of 2 sites retried.\n")
    assert rows(connection, "select run_id from sites order by subdomain") == before
    result = clerk_command("failures", "--error", "ReaderCrashed", "--retry")
    assert result.code == 0
    assert result.out.endswith("2 jobs of 2 sites retried.\n")
    for name in ("town", "city"):
        assert site(connection, name)["ocr_total"] == 1
        assert unit(connection, items[name][0])["status"] == "pending"
        assert unit(connection, items[name][1])["status"] == "failed_terminal"
        assert unit(connection, items[name][2])["status"] == "processed"
    drain(worker)
    assert {group["error_code"] for group in json.loads(clerk_command("failures", "--json").out)} == {"PdfEncrypted"}
    assert rows(connection, "select * from invariant_violations_full") == []


def test_retry_within_the_stage_reopens_the_selected_units_only(
    connection: psycopg.Connection, worker: Worker, clerk_command: Clerk
) -> None:
    items = add_site(connection, documents=3)
    connection.execute("select clerk_start_run('town', p_first_phase => 2)")
    for code in ("ReaderCrashed", "PdfEncrypted"):
        worker.finish(worker.take("ocr"), "failed", code)
    result = clerk_command("failures", "--site", "town", "--error", "ReaderCrashed", "--retry", "--json")
    (retried,) = json.loads(result.out)["sites"]
    assert retried == {"site": "town", "units": {"ocr": 1}, "run_id": site(connection)["run_id"], "problem": None}
    assert [unit(connection, item)["status"] for item in items] == ["pending", "failed_terminal", "pending"]
    drain(worker)
    assert site(connection)["outcome"] == "partial"
    assert rows(connection, "select * from invariant_violations_full") == []


def test_retry_of_two_stages_of_a_site_is_one_run(
    connection: psycopg.Connection, worker: Worker, clerk_command: Clerk
) -> None:
    """The retry of the earlier stage starts the run; the retry of the later stage joins it."""
    items = add_site(connection, documents=3)
    run(worker, "town", {items[0]: "WorkerLost"})
    connection.execute("select clerk_rewind('town', 'extraction')")
    while job := worker.fetch():
        if job.queue == "coordinator":
            worker.coordinate(job)
        else:
            failed = job.queue == "extraction" and job.args["content_item_id"] == items[1]
            worker.finish(job, "failed" if failed else "succeeded", "WorkerLost" if failed else "")
    result = clerk_command("failures", "--error", "WorkerLost", "--retry")
    assert "2 jobs of 1 site retried." in result.out
    drain(worker)
    assert clerk_command("failures").out == "Nothing has failed.\n"
    assert [row[0] for row in rows(connection, "select outcome from pipeline_runs order by run_id")] == [
        "partial",
        "partial",
        "succeeded",
    ]


def test_retry_needs_a_selection_and_dry_run_needs_retry(clerk_command: Clerk) -> None:
    assert clerk_command("failures", "--retry").code == 2
    assert clerk_command("failures", "--dry-run").code == 2
    assert clerk_command("failures", "--site", "nowhere").code == 2
