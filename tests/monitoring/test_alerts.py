"""Alerts of `clerk status`: one per condition, each with a remedy, and none in normal operation."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from clerk.db.connection import read_only_snapshot
from clerk.monitoring.alert import KINDS, RUNBOOK
from clerk.monitoring.alerts import Alert, find_alerts
from clerk.monitoring.explain import explain
from clerk.monitoring.site_state import read_site_state
from clerk.monitoring.status import read_status
from clerk.pipeline import engine
from clerk.pipeline.engine import QUEUES
from clerk.reconcile import plan
from tests.engine.helpers import Worker, add_site, drain, expire, one, run_with, start
from tests.monitoring.workers import defer_schedule, die, fail_schedule, in_phase, register


@pytest.fixture
def worker(new_worker: Callable[[str], Worker]) -> Worker:
    return register(new_worker("0123456789ab clerk 77 machine-a"), *QUEUES)


@pytest.fixture
def items(connection: psycopg.Connection) -> list[int]:
    return add_site(connection, documents=12)


def alerts(connection: psycopg.Connection) -> dict[str, Alert]:
    with read_only_snapshot(connection):
        return {alert.kind: alert for alert in find_alerts(read_status(connection))}


def test_no_alerts_in_normal_operation(connection: psycopg.Connection, items: list[int], worker: Worker) -> None:
    run_with(worker)
    in_phase(connection, 2)
    assert alerts(connection) == {}


def test_a_queue_without_a_worker(connection: psycopg.Connection, items: list[int]) -> None:
    in_phase(connection, 2)
    alert = alerts(connection)["no_worker"]
    assert alert.what == "no worker processes queue ocr: no worker is alive; 12 jobs wait"
    assert alert.remedy == "start workers: clerk worker, or everything: clerk up"


def test_a_periodic_task_that_fails(connection: psycopg.Connection, items: list[int], worker: Worker) -> None:
    """Nothing else shows that no run is started: workers are alive, and no job waits."""
    fail_schedule(connection, worker)
    alert = alerts(connection)["periodic_task"]
    assert alert.what == (
        "the periodic task clerk.schedule failed the last time (DatabaseFailed: permission denied for view x):"
        " no run that is due is started"
    )
    assert " in view job_failures" in alert.remedy
    state = read_site_state(connection, "town")
    assert state is not None
    assert explain(state).sentence == (
        "it has never run; the first run is due, but the periodic task that starts runs failed the last time"
        " (DatabaseFailed: permission denied for view x): see clerk status"
    )

    worker.finish(defer_schedule(connection, worker, 60))
    assert "periodic_task" not in alerts(connection)


def test_due_sites_without_a_worker(connection: psycopg.Connection, items: list[int]) -> None:
    """There is no job that waits: the worker would defer it."""
    alert = alerts(connection)["no_worker"]
    what = "no worker processes queue coordinator: no worker is alive; 1 site waits for a run"
    assert (alert.what, alert.count) == (what, 1)
    engine.pause_site(connection, "town", "me")
    assert "no_worker" not in alerts(connection)


def test_a_stuck_site(connection: psycopg.Connection, items: list[int], worker: Worker) -> None:
    in_phase(connection, 2)
    connection.execute("update sites set updated_at = now() - interval '3 hours'")
    alert = alerts(connection)["stuck"]
    assert alert.what == "1 site is stuck: town (no progress for 3 h)"
    assert alert.remedy == "see the reason: clerk why town"


def test_three_of_many_stuck_sites_are_named(connection: psycopg.Connection, worker: Worker) -> None:
    for number in range(15):
        add_site(connection, f"town{number}", documents=1)
        start(connection, f"town{number}")
    connection.execute("update sites set updated_at = now() - interval '3 hours'")
    assert alerts(connection)["stuck"].what.startswith("15 sites are stuck: ")
    assert alerts(connection)["stuck"].what.endswith(" and 12 more")


def test_a_dead_worker(
    connection: psycopg.Connection, items: list[int], worker: Worker, new_worker: Callable[[str], Worker]
) -> None:
    die(connection, worker)
    alert = alerts(connection)["dead_worker"]
    assert alert.what == f"1 worker is dead: worker {worker.number} on machine-a (last heartbeat 5 min ago)"
    assert alert.remedy == "other workers take over its jobs; restart it: clerk worker"

    die(connection, register(new_worker("0123456789ab clerk 79 machine-b"), *QUEUES))
    assert alerts(connection)["dead_worker"].remedy.startswith("other workers take over their jobs; restart them")

    register(new_worker("0123456789ac clerk 78 machine-a"), *QUEUES)
    register(new_worker("0123456789ac clerk 80 machine-b"), *QUEUES)
    assert "dead_worker" not in alerts(connection), "it was replaced"
    in_phase(connection, 2)
    worker.take("ocr")
    die(connection, worker)
    assert alerts(connection)["dead_worker"].count == 1, "its job has not been taken over yet"


def test_invariant_violations(connection: psycopg.Connection, items: list[int], worker: Worker) -> None:
    in_phase(connection, 2)
    expire(connection, worker.take("ocr"))
    assert alerts(connection)["violations"].what == "1 invariant violation (I7: 1)"


def test_the_remedy_of_violations_repairs_an_active_site(
    connection: psycopg.Connection, items: list[int], worker: Worker
) -> None:
    """The threshold would hold back the repair of a site that has just changed."""
    in_phase(connection, 2)
    connection.execute("update sites set ocr_failed = ocr_failed + 2")
    alert = alerts(connection)["violations"]
    assert alert.remedy.endswith("now: clerk reconcile-pipeline --threshold-hours 0")
    assert "once it has made no progress for 2 hours" in alert.remedy
    assert plan.make_plan(connection, None) == []
    assert {repair.kind for repair in plan.make_plan(connection, None, threshold=timedelta(0))} == {"counters"}


def test_increasing_failures(connection: psycopg.Connection, items: list[int], worker: Worker) -> None:
    run_with(worker, "ocr", items=tuple(items[:9]))
    assert "failures" not in alerts(connection)
    run_with(worker, "extraction", "ocr")
    connection.execute("delete from content_item_pipeline_state where status <> 'failed_terminal'")
    assert "failures" not in alerts(connection)
    connection.execute("update content_item_pipeline_state set updated_at = now() where status = 'failed_terminal'")
    connection.execute(
        "insert into content_item_pipeline_state (content_item_id, pipeline, status, error_code, run_id)"
        " select id, 'extraction', 'failed_terminal', 'X', 1 from content_items where kind = 'minutes'"
    )
    assert alerts(connection)["failures"].what == "failures increase: 21 in the last hour, 0 per hour in the day before"
    connection.execute("update content_item_pipeline_state set updated_at = now() - interval '2 hours'")
    assert "failures" not in alerts(connection)


def test_a_failed_run(connection: psycopg.Connection, items: list[int], worker: Worker) -> None:
    run_with(worker, "compilation")
    alert = alerts(connection)["failed"]
    assert alert.what == "the last run of 1 site failed (PdfBroken): town"
    assert (alert.count, alert.since) == (1, one(connection, "select failing_since from sites"))
    assert alert.remedy.endswith("; details: clerk why town")
    start(connection)
    assert "failed" in alerts(connection), "while the next run is active"


def test_hundreds_of_failing_sources_are_one_alert(connection: psycopg.Connection, worker: Worker) -> None:
    for number in range(30):
        add_site(connection, f"town{number:02}", documents=0)
        start(connection, f"town{number:02}")
    for number in range(30):
        code = "DownloadFailed" if number < 20 else "LocalPathMissing"
        worker.finish(worker.take("fetch"), "failed", code)
    drain(worker)
    connection.execute("update sites set failing_since = now() - interval '2 days' where subdomain = 'town07'")
    found = alerts(connection)
    assert set(found) & {"source", "failed", "partial", "no_documents"} == {"source"}
    alert = found["source"]
    assert alert.what.startswith("the last fetch of 30 sites failed (DownloadFailed: 20, LocalPathMissing: 10): town")
    assert alert.what.endswith(" and 27 more")
    assert (alert.count, alert.severity) == (30, "error")
    assert alert.since == one(connection, "select min(failing_since) from sites"), "since the oldest"
    assert "clerk failures --stage fetch" in alert.remedy
    assert (alert.as_dict()["severity"], alert.as_dict()["runbook_url"]) == ("error", "docs/runbooks/alerts.md#source")
    with read_only_snapshot(connection):
        health = read_status(connection).health
    assert (health["healthy"], health["assessed"], health["healthy_percent"]) == (0, 30, 0)


def test_a_partial_run_and_its_failed_documents(
    connection: psycopg.Connection, items: list[int], worker: Worker
) -> None:
    run_with(worker, "ocr", items=tuple(items[:2]))
    found = alerts(connection)
    assert set(found) == {"partial", "documents"}
    assert found["partial"].what == "the archive of 1 site is incomplete: town"
    assert found["documents"].what == "2 documents of 1 site could not be processed (PdfBroken)"
    assert found["documents"].remedy == "see them with their remedies: clerk failures --error PdfBroken"
    assert (found["documents"].count, found["documents"].severity) == (2, "warning")
    assert found["documents"].since is not None

    assert run_with(worker) == "unchanged: no new documents; 2 documents unread"
    assert set(alerts(connection)) == {"partial", "documents"}, "a run that finds nothing new repairs nothing"
    with read_only_snapshot(connection):
        health = read_status(connection).health
    assert (health["healthy"], health["partial"], health["assessed"]) == (0, 1, 1)


def test_a_source_that_is_retried(connection: psycopg.Connection, worker: Worker) -> None:
    add_site(connection, documents=0)
    start(connection)
    for _ in range(2):
        assert "source" not in alerts(connection)
        worker.retry(worker.take("fetch"), code="HostNotFound")
    assert alerts(connection)["source"].what == "the last fetch of 1 site failed (HostNotFound): town"


def test_a_cancelled_run_is_no_failure(connection: psycopg.Connection, items: list[int], worker: Worker) -> None:
    in_phase(connection, 2)
    engine.cancel_run(connection, "town")
    assert one(connection, "select count(*) from failing_documents") == 0
    assert one(connection, "select count(*) from recent_errors") == 0


def test_a_source_without_documents(connection: psycopg.Connection, worker: Worker) -> None:
    add_site(connection, documents=0)
    run_with(worker)
    alert = alerts(connection)["no_documents"]
    assert alert.what == "the source of 1 site has no documents: town"
    assert "clerk site edit town lists" in alert.remedy


def test_disks_that_are_nearly_full(connection: psycopg.Connection, worker: Worker) -> None:
    report = """
        insert into disk_reports (host, folder, purpose, free_bytes, total_bytes, low_since, reported_at)
        values (%s, '/srv', 'storage', %s, 100e9, %s, %s)
    """
    now = one(connection, "select now()")
    connection.execute(report, ["a", 50_000_000_000, None, now])
    assert alerts(connection) == {}
    connection.execute(report, ["b", 3_000_000_000, now - timedelta(hours=1), now])
    connection.execute(report, ["gone", 0, now - timedelta(days=1), now - timedelta(hours=1)])
    alert = alerts(connection)["disk_low"]
    assert alert.what == "1 disk is nearly full: /srv on b (storage; 3.0 GB of 100 GB free)"
    assert (alert.count, alert.since) == (1, now - timedelta(hours=1))


def test_one_problem_of_several_queues_and_workers_is_one_alert(
    connection: psycopg.Connection, worker: Worker, new_worker: Callable[[str], Worker]
) -> None:
    """A bucket that does not answer closes all queues that use it, in every worker."""
    other = register(new_worker("0123456789ac clerk 78 machine-b"), *QUEUES)
    report = "insert into host_problems (worker_id, queue, error_code, message) values (%s, %s, %s, %s)"
    for queue in ("fetch", "ocr", "extraction"):
        connection.execute(report, [worker.number, queue, "StorageUnreachable", "no answer"])
    connection.execute(report, [other.number, "ocr", "StorageUnreachable", "no answer"])
    connection.execute(report, [other.number, "deploy", "DiskFull", "/srv is full"])
    with read_only_snapshot(connection):
        found = [alert for alert in find_alerts(read_status(connection)) if alert.kind == "host_problem"]
    full, unreachable = found
    assert full.what.endswith(" on machine-b cannot process jobs of queue deploy (DiskFull: /srv is full)")
    assert unreachable.what == (
        f"worker {worker.number} on machine-a and worker {other.number} on machine-b cannot process jobs of"
        " queues extraction, fetch and ocr (StorageUnreachable: no answer)"
    )
    assert (full.count, unreachable.count) == (1, 2), "workers"


def test_failing_deliveries(connection: psycopg.Connection, worker: Worker) -> None:
    connection.execute(
        "insert into saved_searches (name, query, created_by, query_error, query_error_at)"
        " values ('a', '(', 'me', 'no', now())"
    )
    alert = alerts(connection)["deliveries"]
    assert alert.what == "1 delivery of alerts to readers failed (SavedQueryInvalid)"
    assert alert.since == one(connection, "select query_error_at from saved_searches")


def test_every_kind_of_alert_has_a_section_in_the_runbook() -> None:
    page = (Path(__file__).parents[2] / RUNBOOK).read_text(encoding="utf-8")
    sections = set(re.findall(r"^### (\w+)$", page, re.MULTILINE))
    assert set(KINDS) - sections == set()


def test_paused_sites_and_queues(connection: psycopg.Connection, items: list[int], worker: Worker) -> None:
    in_phase(connection, 2)
    engine.pause_queue(connection, "ocr", "bob")
    engine.pause_site(connection, "town", "ann")
    pauses = alerts(connection)
    assert pauses["queue_paused"].what == "queue ocr is paused by bob; 12 jobs wait"
    assert pauses["queue_paused"].since == one(connection, "select paused_at from queue_pauses")
    assert pauses["queue_paused"].count == 12
    assert pauses["queue_paused"].remedy == "clerk resume --queue ocr"
    assert pauses["site_paused"].what == "1 site is paused: town (by ann)"


def test_a_disabled_trigger(connection: psycopg.Connection, items: list[int], worker: Worker) -> None:
    connection.execute("alter table procrastinate_jobs disable trigger clerk_record_change")
    assert (
        alerts(connection)["triggers"].what == "trigger clerk_record_change is disabled: finished jobs are not recorded"
    )


def test_a_trigger_of_procrastinate_that_clerk_replaces(
    connection: psycopg.Connection, items: list[int], worker: Worker
) -> None:
    """Jobs are recorded: the alert must not say the opposite."""
    connection.execute("alter table procrastinate_jobs enable trigger procrastinate_trigger_status_events_update_v1")
    twice = (
        "trigger procrastinate_trigger_status_events_update_v1 is enabled, although clerk does its work:"
        " events and notifications are sent twice"
    )
    assert alerts(connection)["triggers"].what == twice
    connection.execute("alter table procrastinate_jobs disable trigger clerk_record_change")
    lost = "trigger clerk_record_change is disabled: finished jobs are not recorded"
    assert alerts(connection)["triggers"].what == f"{lost}; {twice}"
