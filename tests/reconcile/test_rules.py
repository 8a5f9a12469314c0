"""The rules of reconciliation: threshold, repeated repairs, log, locking."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from clerk.errors import SchemaMismatch
from clerk.pipeline import engine
from clerk.reconcile import apply, db_checks, log
from clerk.reconcile.apply import reconcile, rescue_expired
from clerk.reconcile.plan import THRESHOLD, make_plan
from clerk.reconcile.repair import Repair
from tests.conftest import Url
from tests.engine.helpers import (
    Connection,
    Worker,
    add_site,
    broken_invariants,
    drain,
    expire,
    one,
    rows,
    site,
    start,
    unit,
    waiting_problems,
)
from tests.reconcile.repair_helpers import repair_all

NOW = timedelta(0)


def delete_jobs(connection: Connection, queue: str, statuses: tuple[str, ...] = ("todo", "doing")) -> None:
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        gone = "delete from procrastinate_jobs where status::text = any (%s) and queue_name = %s"
        connection.execute(gone, [list(statuses), queue])


def age(connection: Connection, hours: float) -> None:
    connection.execute("update sites set updated_at = now() - %s * interval '1 hour'", [hours])


# --- the threshold -------------------------------------------------------------------------------------------


def test_a_site_that_changed_within_the_threshold_is_left_alone(connection: Connection) -> None:
    add_site(connection, documents=2)
    start(connection, phase=2)
    delete_jobs(connection, "ocr")
    age(connection, 1.9)
    assert make_plan(connection, None) == []
    assert reconcile(connection, None).done == []
    assert len(make_plan(connection, None, threshold=timedelta(hours=1))) == 2
    age(connection, 2.1)
    assert len(reconcile(connection, None).done) == 2


def test_jobs_without_lease_are_rescued_regardless_of_the_threshold(connection: Connection) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    expire(connection, worker.take("ocr"))
    assert [repair.kind for repair in reconcile(connection, None, threshold=THRESHOLD).done] == ["lease"]
    expire(connection, worker.take("ocr"))
    assert rescue_expired(connection) == 1


def test_a_slow_job_with_a_live_lease_is_never_touched(connection: Connection) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    job = worker.take("ocr")
    age(connection, 100)
    connection.execute("update job_claims set claimed_at = now() - interval '3 hours'")
    assert repair_all(connection) == []
    assert worker.finish(job)


def test_reconcile_one_site(connection: Connection) -> None:
    for name in ("town", "village"):
        add_site(connection, name, documents=1)
        start(connection, name, phase=2)
    delete_jobs(connection, "ocr")
    assert {repair.subdomain for repair in reconcile(connection, None, "village", NOW).done} == {"village"}
    assert {repair.subdomain for repair in repair_all(connection)} == {"town"}


def test_wrongly_paused_jobs_of_one_site_are_released(connection: Connection) -> None:
    for name in ("town", "village"):
        add_site(connection, name, documents=1)
        start(connection, name, phase=2)
        engine.pause_site(connection, name, "a test")
    connection.execute("update sites set paused_at = null")
    assert len(make_plan(connection, None)) == 2
    assert [repair.subdomain for repair in reconcile(connection, None, "village").done] == ["village"]
    assert waiting_problems(connection) != []
    assert [repair.subdomain for repair in reconcile(connection, None).done] == ["town"]
    assert waiting_problems(connection) == []


# --- repeated repairs ---------------------------------------------------------------------------------------------


def test_after_three_repairs_without_progress_the_run_is_abandoned(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    run = start(connection, phase=2)
    for _ in range(3):
        delete_jobs(connection, "ocr")
        assert [repair.kind for repair in repair_all(connection)] == ["unit", "unit"]
    delete_jobs(connection, "ocr")
    planned = make_plan(connection, None, threshold=NOW)
    assert [(repair.kind, repair.action) for repair in planned] == [("abandoned", "end the run as failed")]
    assert [repair.kind for repair in repair_all(connection)] == ["abandoned"]

    outcome, reason = rows(connection, "select outcome, outcome_reason from pipeline_runs where run_id = %s", [run])[0]
    assert outcome == "failed"
    assert reason == (
        f"abandoned: content item {items[0]} is pending and has no job;"
        " repaired 3 times without progress (defer a new job)"
    )
    assert repair_all(connection) == []
    assert broken_invariants(connection) == []
    assert unit(connection, items[0])["status"] == "failed_terminal"
    engine.start_run(connection, "town")
    drain(Worker(connection))
    assert site(connection)["outcome"] == "succeeded", "the next run includes the open units"


def test_a_run_with_a_live_job_is_not_abandoned(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    run = start(connection, phase=2)
    worker = Worker(connection)
    job = worker.take("ocr")
    for _ in range(3):
        delete_jobs(connection, "ocr", ("todo",))
        assert [repair.kind for repair in repair_all(connection)] == ["unit"]
    delete_jobs(connection, "ocr", ("todo",))
    assert make_plan(connection, None, threshold=NOW) == []
    assert not engine.abandon_run(connection, "town", run, "test")
    assert unit(connection, items[0])["status"] == "in_progress"
    assert worker.finish(job)
    assert [repair.kind for repair in repair_all(connection)] == ["unit"], "that was progress"


def test_progress_resets_the_count(connection: Connection) -> None:
    add_site(connection, documents=3)
    start(connection, phase=2)
    worker = Worker(connection)
    for _ in range(3):
        delete_jobs(connection, "ocr")
        repair_all(connection)
    worker.finish(worker.take("ocr"))
    delete_jobs(connection, "ocr")
    assert {repair.kind for repair in repair_all(connection)} == {"unit"}


def test_a_coordinator_that_keeps_failing_ends_the_run(connection: Connection) -> None:
    add_site(connection, documents=1)
    run = start(connection, phase=2)
    worker = Worker(connection)
    worker.finish(worker.take("ocr"))
    for _ in range(3):
        worker.finish(worker.take("coordinator"), "failed")
        assert [repair.kind for repair in repair_all(connection)] == ["coordinator"]
    worker.finish(worker.take("coordinator"), "failed")
    assert [repair.kind for repair in repair_all(connection)] == ["abandoned"]
    assert one(connection, "select outcome from pipeline_runs where run_id = %s", [run]) == "failed"
    assert repair_all(connection) == []
    assert broken_invariants(connection) == []


def test_rescues_are_limited_by_attempts_only(connection: Connection) -> None:
    add_site(connection, documents=4)
    start(connection, phase=2)
    worker = Worker(connection)
    for _ in range(4):
        expire(connection, worker.take("ocr"))
        assert [repair.kind for repair in repair_all(connection)] == ["lease"]
        connection.execute("update procrastinate_jobs set priority = -1 where attempts > 0")
    assert site(connection)["current_stage"] == "ocr"


def test_repairs_of_an_ended_run_stop_after_three_times(connection: Connection) -> None:
    add_site(connection, documents=1)
    start(connection, phase=5)
    for _ in range(3):
        connection.execute("update sites set ocr_failed = 7")
        assert [repair.kind for repair in repair_all(connection)] == ["counters"]
    connection.execute("update sites set ocr_failed = 7")
    assert repair_all(connection) == []
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) != []


# --- log -------------------------------------------------------------------------------------------------


def test_each_repair_is_logged_with_before_and_after(connection: Connection) -> None:
    items = add_site(connection, documents=1)
    run = start(connection, phase=2)
    connection.execute("update sites set ocr_total = 9")
    repair_all(connection)
    delete_jobs(connection, "ocr")
    repair_all(connection)
    logged = rows(
        connection,
        "select kind, subdomain, run_id, stage, error, before, after, reconciliation from reconcile_log order by id",
    )
    assert [row[:5] for row in logged] == [("counters", "town", run, None, None), ("unit", "town", run, "ocr", None)]
    counters, orphan = logged
    assert counters[5]["site"]["counters"]["ocr"] == {"total": 9, "completed": 0, "failed": 0}
    assert counters[6]["site"]["counters"]["ocr"] == {"total": 1, "completed": 0, "failed": 0}
    assert counters[5]["run"] == {"run_id": run}
    assert orphan[5]["unit"]["content_item_id"] == items[0]
    assert orphan[5]["unit"]["job_id"] != orphan[6]["unit"]["job_id"]
    assert counters[7] != orphan[7], "two reconciliations"


def test_a_failed_repair_is_logged_and_the_others_are_applied(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_site(connection, documents=1)
    run = start(connection, phase=2)
    delete_jobs(connection, "ocr")

    def fail(connection: Connection) -> bool:
        connection.execute("update sites set name = 'partial'")
        connection.execute("select 1 / 0")
        return True

    broken = Repair("text", "town", run, "ocr", "found", "action", "why", fail)
    checks = db_checks.run_checks
    monkeypatch.setattr(db_checks, "run_checks", lambda *arguments: [broken, *checks(*arguments)])
    result = reconcile(connection, None, threshold=NOW)
    assert [repair.kind for repair in result.done] == ["unit"]
    assert reconciliations(connection) == [(None, 2, 1, 1, 0)]
    assert [(repair.kind, error) for repair, error in result.failed] == [("text", "DivisionByZero: division by zero")]
    assert rows(connection, "select kind, error from reconcile_log order by id") == [
        ("text", "DivisionByZero: division by zero"),
        ("unit", None),
    ]
    assert site(connection)["name"] == "town", "it was rolled back"
    for _ in range(2):
        reconcile(connection, None, threshold=NOW)
    assert [repair.kind for repair in reconcile(connection, None, threshold=NOW).done] == ["abandoned"]
    assert reconciliations(connection)[-1] == (None, 1, 0, 0, 1)


def reconciliations(connection: Connection) -> list[tuple[Any, ...]]:
    """site, found, repaired, failed, abandoned; oldest first"""
    query = (
        "select subdomain, found, repaired, failed, abandoned from recent_reconciliations"
        " where seconds >= 0 order by started_at"
    )
    return rows(connection, query)


def test_every_reconciliation_is_recorded(connection: Connection) -> None:
    add_site(connection, documents=2)
    start(connection, phase=2)
    delete_jobs(connection, "ocr")
    make_plan(connection, None, threshold=NOW)
    rescue_expired(connection)
    assert reconciliations(connection) == [], "neither a dry run nor the rescue of every minute"
    reconcile(connection, None, threshold=NOW)
    reconcile(connection, None, "town", NOW)
    assert reconciliations(connection) == [(None, 2, 2, 0, 0), ("town", 0, 0, 0, 0)]
    (repaired,) = rows(connection, "select distinct reconciliation from reconcile_log")
    assert rows(connection, "select reconciliation from reconcile_runs where repaired = 2") == [repaired]


def test_an_interrupted_reconciliation_has_no_end(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.execute("alter table procrastinate_jobs disable trigger clerk_fence")
    with pytest.raises(SchemaMismatch):
        reconcile(connection, None)
    assert rows(connection, "select ended_at, seconds, found from recent_reconciliations") == [(None, None, 0)]


def test_a_locked_row_is_left_for_the_next_reconciliation(
    connection: Connection, database: Url, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of times: a lock timeout does not count as a repeated repair."""
    monkeypatch.setattr(apply, "_LOCK_TIMEOUT", "20ms")
    add_site(connection, documents=1)
    start(connection, phase=2)
    delete_jobs(connection, "ocr")
    with psycopg.connect(database) as other:
        other.execute("select from sites for update")
        for _ in range(4):
            (failed,) = reconcile(connection, None, threshold=NOW).failed
            assert failed[1].startswith("LockNotAvailable: ")
    assert [repair.kind for repair in reconcile(connection, None, threshold=NOW).done] == ["unit"]


def test_retention_of_the_log(connection: Connection) -> None:
    insert = (
        "insert into reconcile_log (reconciliation, kind, at, found, done, why)"
        " values (gen_random_uuid(), 'x', now() - %s * interval '1 day', '', '', '')"
    )
    insert_action = "insert into operator_actions (action, at) values ('retry', now() - %s * interval '1 day')"
    insert_run = (
        "insert into reconcile_runs (reconciliation, started_at)"
        " values (gen_random_uuid(), now() - %s * interval '1 day')"
    )
    for days in (89, 91):
        for write in (insert, insert_action, insert_run):
            connection.execute(write.encode(), [days])
    assert log.delete_old(connection) == 1
    assert log.delete_old(connection) == 0
    assert one(connection, "select count(*) from operator_actions") == 1
    assert one(connection, "select count(*) from reconcile_runs") == 1


# --- locking -------------------------------------------------------------------------------------------------


def test_a_second_reconciler_returns_busy(connection: Connection, database: str) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    delete_jobs(connection, "ocr")
    with psycopg.connect(database, autocommit=True) as other:
        entered, leave = threading.Event(), threading.Event()

        def wait(done: int, of: int) -> None:
            entered.set()
            leave.wait(30)

        first = threading.Thread(target=reconcile, args=[other, None, None, NOW, wait])
        first.start()
        assert entered.wait(30)
        second = reconcile(connection, None, threshold=NOW)
        leave.set()
        first.join()
    assert (second.busy, second.done) == (True, [])
    assert len(reconciliations(connection)) == 1, "the busy one is not recorded"
    assert not reconcile(connection, None, threshold=NOW).busy, "the lock is released"


@pytest.mark.parametrize("how", ["disable", "enable replica"])
def test_without_triggers_nothing_is_repaired(connection: Connection, how: str) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    delete_jobs(connection, "ocr")
    connection.execute(f"alter table procrastinate_jobs {how} trigger clerk_record_change".encode())
    with pytest.raises(SchemaMismatch, match="trigger clerk_record_change is disabled"):
        repair_all(connection)
    connection.execute("alter table procrastinate_jobs enable trigger clerk_record_change")
    assert len(repair_all(connection)) == 1


def test_times_come_from_the_database_not_from_the_worker(
    connection: Connection, new_worker: Callable[[str], Worker]
) -> None:
    """All times are set by the database, so moving its clock expires the lease."""
    add_site(connection, documents=2)
    start(connection, phase=2)
    fast = new_worker("worker")
    job = fast.take("ocr")
    assert repair_all(connection) == []
    connection.execute("set clerk.now = '2999-01-01'")
    assert [repair.kind for repair in repair_all(connection)] == ["lease"]
    assert not fast.finish(job)
