"""The views, with rows created by the engine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.rows import dict_row

from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.pipeline import engine
from clerk.reconcile.apply import rescue_expired
from tests.docs.views_page import PAGE, page
from tests.engine.helpers import (
    Connection,
    Worker,
    add_site,
    archive,
    broken_invariants,
    drain,
    expire,
    finish_phase,
    one,
    rows,
    run_with,
    start,
)

NewWorker = Callable[[str], Worker]
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def worker(new_worker: NewWorker) -> Worker:
    return new_worker("0123456789ab clerk 4711 machine-a")


def view(connection: Connection, name: str) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return list(cursor.execute(f"select * from {name}".encode()))


def overview(connection: Connection, subdomain: str = "town") -> dict[str, Any]:
    return next(row for row in view(connection, "pipeline_overview") if row["subdomain"] == subdomain)


def at(connection: Connection, moment: datetime) -> None:
    """Set the clock of this session."""
    connection.execute("select set_config('clerk.now', %s, false)", [moment.isoformat()])


def test_every_view_has_a_comment(connection: Connection, folder: SqlFolder) -> None:
    commented = {
        name
        for (name,) in rows(
            connection,
            "select relname from pg_class where relkind = 'v' and obj_description(oid, 'pg_class') is not null",
        )
    }
    assert {item.name for item in folder.objects if item.kind == "view"} <= commented


# pipeline_overview and views based on it


def test_overview_of_a_run(connection: Connection, worker: Worker) -> None:
    at(connection, NOON)
    at(worker.connection, NOON)
    add_site(connection, documents=4)
    before = overview(connection)
    assert (before["phase"], before["percent"], before["stuck"], before["idle_for"]) == (None, None, False, None)

    start(connection, phase=2)
    assert (overview(connection)["percent"], overview(connection)["eta"]) == (25, None)
    worker.finish(worker.take("ocr"))
    at(connection, NOON + HOUR)
    seen = overview(connection)
    assert (seen["phase"], seen["phase_ended"], seen["phase_total"], seen["phase_began_at"]) == (2, 1, 4, NOON)
    assert (float(seen["percent"]), seen["rate_per_hour"]) == (31.3, 1)
    assert (seen["eta"], seen["idle_for"]) == (None, HOUR)

    engine.pause_site(connection, "town", "me")
    assert (overview(connection)["paused"], overview(connection)["paused_by"]) == (True, "me")
    engine.resume_site(connection, "town")
    drain(worker)
    seen = overview(connection)
    assert (seen["percent"], seen["phase"], seen["rate_per_hour"], seen["eta"]) == (100, None, None, None)


def ended_at(connection: Connection, moment: datetime) -> None:
    """Move the ends of all jobs to one moment: procrastinate takes the clock of the server."""
    connection.execute("update procrastinate_events set at = %s where type in ('succeeded', 'failed')", [moment])


def test_eta_of_a_site_is_from_the_recent_rate_and_only_if_it_is_meaningful(
    connection: Connection, worker: Worker
) -> None:
    add_site(connection, documents=9)
    start(connection, phase=2)
    # The phase waited long for a worker: its average rate says nothing about the present one.
    connection.execute("update pipeline_transitions set advanced_at = now() - interval '3 days'")
    connection.execute("update sites set started_at = now() - interval '3 days'")
    for _ in range(2):
        worker.finish(worker.take("ocr"))
    running = worker.take("ocr")
    ended_at(connection, datetime.now(UTC) - timedelta(minutes=10))
    assert overview(connection)["eta"] is None, "too few"
    worker.finish(worker.take("ocr"))
    ended_at(connection, datetime.now(UTC) - timedelta(minutes=10))

    def minutes_left() -> float | None:
        eta = overview(connection)["eta"]
        return None if eta is None else round((eta - datetime.now(UTC)).total_seconds() / 60)

    assert minutes_left() == 20, "three in ten minutes, six left"
    engine.pause_site(connection, "town", "me")
    assert minutes_left() is None
    engine.resume_site(connection, "town")
    engine.pause_queue(connection, "ocr", "me")
    assert minutes_left() is None
    engine.resume_queue(connection, "ocr")
    assert minutes_left() == 20
    connection.execute("update sites set ocr_total = 40000")
    assert minutes_left() is None, "more than a month"
    connection.execute("update sites set ocr_total = 9")
    ended_at(connection, datetime.now(UTC) - timedelta(minutes=16))
    assert minutes_left() is None, "nothing ended recently"
    ended_at(connection, datetime.now(UTC) - timedelta(minutes=10))
    expire(connection, running)
    assert minutes_left() is None, "no job runs"


def test_a_phase_without_units_counts_as_a_quarter(connection: Connection) -> None:
    add_site(connection, documents=0)
    start(connection, phase=2)
    assert overview(connection)["percent"] == 50


def idle(connection: Connection, subdomain: str = "town", hours: int = 3) -> None:
    connection.execute(
        "update sites set updated_at = now() - %s * interval '1 hour' where subdomain = %s", [hours, subdomain]
    )


def test_stuck(connection: Connection, worker: Worker) -> None:
    add_site(connection)
    start(connection, phase=2)
    assert view(connection, "stuck_sites") == []
    idle(connection)
    (stuck,) = view(connection, "stuck_sites")
    assert (stuck["subdomain"], stuck["current_stage"], stuck["phase_ended"], stuck["phase_total"]) == (
        "town",
        "ocr",
        0,
        2,
    )
    assert stuck["idle_for"] > 2 * HOUR


def test_stuck_without_any_time(connection: Connection) -> None:
    """Legacy sites may have a stage and no time."""
    connection.execute("insert into sites (subdomain, current_stage) values ('town', 'ocr')")
    assert overview(connection)["stuck"]


def _pause(connection: Connection, worker: Worker) -> None:
    engine.pause_site(connection, "town", "me")


def _progress(connection: Connection, worker: Worker) -> None:
    idle(connection, hours=1)


def _work(connection: Connection, worker: Worker) -> None:
    worker.take("ocr")


def _complete(connection: Connection, worker: Worker) -> None:
    drain(worker)
    idle(connection)


@pytest.mark.parametrize("reason", [_pause, _progress, _work, _complete])
def test_not_stuck(connection: Connection, worker: Worker, reason: Callable[[Connection, Worker], None]) -> None:
    add_site(connection)
    start(connection, phase=2)
    idle(connection)
    assert overview(connection)["stuck"]
    reason(connection, worker)
    assert not overview(connection)["stuck"]


def test_stuck_with_an_expired_lease(connection: Connection, worker: Worker) -> None:
    add_site(connection)
    start(connection, phase=2)
    job = worker.take("ocr")
    idle(connection)
    assert not overview(connection)["stuck"]
    expire(connection, job)
    assert overview(connection)["stuck"]


def test_stuck_beside_jobs_without_a_site(connection: Connection, worker: Worker) -> None:
    """A NULL in `not in` would make the result NULL for every site."""
    add_site(connection)
    start(connection, phase=2)
    idle(connection)
    connection.execute("insert into procrastinate_jobs (queue_name, task_name) values ('other', 'x')")
    worker.take("other")
    assert overview(connection)["stuck"]


def test_health(connection: Connection, worker: Worker) -> None:
    (nothing,) = view(connection, "pipeline_health")
    assert (nothing["sites"], nothing["health_score"], nothing["stuck_percent"]) == (0, 100, 0)
    for name in ("a", "b", "c"):
        (broken, *_) = add_site(connection, name, documents=4)
        start(connection, name, phase=2)
        finish_phase(worker, failing=(broken,))
        if name == "a":
            drain(worker)
    connection.execute("insert into sites (subdomain) values ('d')")
    idle(connection, "b")
    (health,) = view(connection, "pipeline_health")
    assert {key: health[key] for key in ("sites", "never_run", "active", "completed", "stuck", "failed")} == {
        "sites": 4,
        "never_run": 1,
        "active": 2,
        "completed": 1,
        "stuck": 1,
        "failed": 0,
    }
    assert (float(health["stuck_percent"]), float(health["health_score"])) == (50, 66.7)
    assert (health["fetch_failure_percent"], health["ocr_failure_percent"]) == (0, 25)
    assert health["deploy_failure_percent"] == 0
    assert (health["healthy"], health["assessed"], health["healthy_percent"]) == (0, 2, 0), "partial and stuck"
    assert (health["partial"], health["failing"], health["failing_sources"]) == (1, 0, 0)
    assert (nothing["healthy"], nothing["assessed"], nothing["healthy_percent"]) == (0, 0, None)


def test_a_running_site_counts_by_its_last_run_that_ended(connection: Connection, worker: Worker) -> None:
    def health() -> tuple[int, int, float]:
        (row,) = view(connection, "pipeline_health")
        return row["healthy"], row["failing"], float(row["healthy_percent"])

    add_site(connection)
    connection.execute("insert into sites (subdomain) values ('never')")
    run_with(worker)
    assert (overview(connection)["last_outcome"], overview(connection)["failing_since"]) == ("succeeded", None)
    start(connection)
    assert health() == (1, 0, 100), "the site that never ran is not counted"
    finish_phase(worker, failing=(archive(connection),))
    drain(worker)
    failed = overview(connection)
    assert (failed["outcome"], failed["last_outcome"], failed["source_failing"]) == ("failed", "failed", True)
    assert failed["failing_since"] is not None
    start(connection)
    running = overview(connection)
    assert (running["outcome"], running["last_outcome"], running["source_failing"]) == (None, "failed", True)
    assert health() == (0, 1, 0)
    engine.cancel_run(connection, "town", "not now")
    assert overview(connection)["outcome"] == "cancelled"
    assert overview(connection)["last_outcome"] == "failed", "a cancelled run says nothing"
    run_with(worker, "fetch")
    assert overview(connection)["failing_since"] == failed["failing_since"], "since the first failed run"
    run_with(worker)
    recovered = overview(connection)
    assert (recovered["last_outcome"], recovered["failing_since"]) == ("unchanged", None)
    assert health() == (1, 0, 100)


# Queues, workers, times


def test_queue_backlog(connection: Connection, worker: Worker) -> None:
    assert view(connection, "queue_backlog") == []
    add_site(connection, documents=9)
    start(connection, phase=2)
    worker.finish(worker.take("ocr"))
    worker.finish(worker.take("ocr"), "failed")
    worker.retry(worker.take("ocr"), at=datetime.now(UTC) + HOUR)
    job = worker.take("ocr")
    connection.execute("update procrastinate_events set at = at - interval '30 minutes' where type = 'deferred'")
    (oldest,) = rows(
        connection,
        "select e.at from procrastinate_events e join procrastinate_jobs j on j.id = e.job_id"
        " where j.status = 'todo' and j.scheduled_at is null order by j.id limit 1",
    )[0]
    at(connection, datetime.now(UTC) + 2 * HOUR)
    (ocr,) = view(connection, "queue_backlog")
    assert (ocr["rate_per_hour"], ocr["eta"]) == (0, None), "no job ended in the hour before"
    connection.execute("select set_config('clerk.now', '', false)")
    (ocr,) = view(connection, "queue_backlog")
    assert [ocr[key] for key in ("queue", "waiting", "scheduled", "on_hold", "running", "paused")] == [
        *("ocr", 5, 1, 0, 1),
        False,
    ]
    assert ocr["oldest_waiting_since"] == oldest
    assert ocr["rate_per_hour"] == 2
    assert (ocr["recent_rate"], ocr["eta"]) == (None, None), "two ended jobs tell no rate"
    for _ in range(3):
        worker.finish(worker.take("ocr"))
    ended_at(connection, datetime.now(UTC) - HOUR / 2)
    (ocr,) = view(connection, "queue_backlog")
    assert round(ocr["recent_rate"]) == 10, "five in the last half hour"
    assert timedelta(minutes=17) < ocr["eta"] - datetime.now(UTC) < timedelta(minutes=19), "three jobs at ten an hour"

    engine.pause_queue(connection, "ocr", "me")
    engine.pause_queue(connection, "deploy", "me")
    deploy, ocr = sorted(view(connection, "queue_backlog"), key=lambda row: str(row["queue"]))
    assert (ocr["waiting"], ocr["scheduled"], ocr["on_hold"], ocr["running"]) == (0, 0, 3, 1)
    assert (ocr["paused"], ocr["paused_by"], ocr["eta"], ocr["oldest_waiting_since"]) == (True, "me", None, None)
    assert (deploy["queue"], deploy["paused"], deploy["waiting"]) == ("deploy", True, 0)
    worker.finish(job)


def test_worker_status(connection: Connection, worker: Worker, new_worker: NewWorker) -> None:
    (idle_worker,) = view(connection, "worker_status")
    assert (idle_worker["worker_id"], idle_worker["alive"], idle_worker["running"]) == (worker.number, True, 0)
    assert (idle_worker["holder"], idle_worker["host"]) == (None, None), "it has not registered its process"

    add_site(connection)
    start(connection, phase=2)
    job = worker.take("ocr")
    engine.report_progress(worker.connection, job.id, job.attempts, 17, 40)
    connection.execute(
        "insert into worker_processes (worker_id, holder, queues) values (%s, %s, '{ocr}')",
        [worker.number, worker.name],
    )
    other = new_worker("foreign")
    connection.execute(
        "update procrastinate_workers set last_heartbeat = now() - interval '5 minutes' where id = %s", [other.number]
    )
    known = {row["worker_id"]: row for row in view(connection, "worker_status")}
    ours, theirs = known[worker.number], known[other.number]
    assert (ours["host"], ours["pid"], ours["queues"], ours["running"]) == ("machine-a", "4711", ["ocr"], 1)
    assert ours["doing"] == "ocr town 17/40"
    assert (theirs["alive"], theirs["doing"]) == (False, None)
    assert theirs["heartbeat_age"] > timedelta(minutes=4)

    (running,) = view(connection, "running_jobs")
    assert (running["job_id"], running["subdomain"], running["has_lease"]) == (job.id, "town", True)
    expire(connection, job)
    assert [row["has_lease"] for row in view(connection, "running_jobs")] == [False]


def test_stage_durations(connection: Connection, worker: Worker) -> None:
    add_site(connection, documents=1)
    start(connection)
    drain(worker)
    (run,) = rows(connection, "select run_id, ended_at from pipeline_runs")
    connection.execute("update pipeline_runs set started_at = ended_at - interval '10 hours'")
    connection.execute(
        "update pipeline_transitions set advanced_at = %s::timestamptz - interval '1 hour' * (10 - 2 * phase)", [run[1]]
    )
    connection.execute("update job_claims set claimed_at = settled_at - interval '3 seconds'")
    connection.execute(
        "update procrastinate_events e set at = c.claimed_at - interval '7 seconds'"
        " from job_claims c where c.job_id = e.job_id and e.type = 'deferred'"
    )
    found = {row["stage"]: row for row in view(connection, "stage_durations")}
    assert set(found) == {"fetch", "ocr", "compilation", "extraction", "deploy"}
    for row in found.values():
        assert (row["runs"], row["median"], row["p90"], row["longest"]) == (1, 2 * HOUR, 2 * HOUR, 2 * HOUR)
        assert (row["jobs"], row["job_median"], row["wait_median"]) == (1, timedelta(seconds=3), timedelta(seconds=7))
    connection.execute("update pipeline_runs set ended_at = ended_at - interval '2 days'")
    at(connection, datetime.now(UTC) + 2 * HOUR)
    assert {(row["runs"], row["jobs"], row["median"]) for row in view(connection, "stage_durations")} == {(0, 0, None)}


def test_completions_per_hour(connection: Connection, worker: Worker) -> None:
    at(connection, NOON)
    at(worker.connection, NOON)
    for name in ("a", "b"):
        (broken, *_) = add_site(connection, name, documents=3)
        start(connection, name, phase=2)
        finish_phase(worker, failing=(broken,))
        drain(worker)
    at(connection, NOON + 5 * HOUR)
    found = {
        row["stage"]: (row["hour"], row["completed"], row["failed"]) for row in view(connection, "completions_per_hour")
    }
    assert found["ocr"] == (NOON, 4, 2)
    assert found["completed"] == (NOON, 2, 0)
    at(connection, NOON + 8 * 24 * HOUR)
    assert view(connection, "completions_per_hour") == []


# Errors


def test_recent_errors(connection: Connection, worker: Worker) -> None:
    first, second, third = add_site(connection, documents=3)
    start(connection, phase=2)
    for code in ("PdfBroken", "PdfTimeout"):
        job = worker.take("ocr")
        (
            worker.finish(job, "failed", code, "no")
            if code == "PdfBroken"
            else worker.retry(job, code=code, message="slow")
        )
    connection.execute(
        "update content_items set fetch_error_code = 'NotFound', fetch_error_message = '404',"
        " fetch_failed_at = now() + interval '1 second' where id = %s",
        [third],
    )
    seen = [
        (row["content_item_id"], row["stage"], row["status"], row["error_code"], row["error_message"])
        for row in view(connection, "recent_errors")
    ]
    assert seen == [
        (third, "fetch", "not fetched", "NotFound", "404"),
        (second, "ocr", "failed_retryable", "PdfTimeout", "slow"),
        (first, "ocr", "failed_terminal", "PdfBroken", "no"),
    ]
    assert {row["content_item_id"] for row in view(connection, "failing_documents")} == {first, second}
    connection.execute("update content_items set fetch_failed_at = now() - interval '1 minute' where id = %s", [third])
    for _ in (second, third):
        worker.finish(worker.take("ocr"), "failed", "NotFound", "404")
    assert [row["stage"] for row in view(connection, "recent_errors") if row["content_item_id"] == third] == ["ocr"]
    at(connection, datetime.now(UTC) + timedelta(days=8))
    assert view(connection, "recent_errors") == []


def test_recent_repairs_and_ignored_results(connection: Connection, worker: Worker, new_worker: NewWorker) -> None:
    add_site(connection)
    start(connection, phase=2)
    job = worker.take("ocr")
    expire(connection, job)
    assert rescue_expired(connection) == 1
    assert not worker.finish(job)
    assert worker.check_rejected(job, "succeeded") == "fenced"
    (repair,) = view(connection, "recent_repairs")
    assert (repair["subdomain"], repair["stage"]) == ("town", "ocr")
    (ignored,) = view(connection, "recent_ignored_results")
    assert (ignored["why"], ignored["holder"], ignored["job_id"]) == ("fenced", worker.name, job.id)
    at(connection, datetime.now(UTC) + timedelta(days=8))
    assert view(connection, "recent_repairs") == view(connection, "recent_ignored_results") == []


# Invariants


def idle_site(connection: Connection, worker: Worker) -> None:
    """A site whose run ended four hours ago."""
    add_site(connection)
    start(connection)
    drain(worker)
    idle(connection, hours=4)


def full(connection: Connection) -> list[str]:
    return [str(row["invariant"]) for row in view(connection, "invariant_violations_full")]


def test_counters_of_an_idle_site_are_checked(connection: Connection, worker: Worker) -> None:
    idle_site(connection, worker)
    assert broken_invariants(connection) == []
    connection.execute("update sites set ocr_completed = 1, ocr_failed = 1")
    assert [row[0] for row in broken_invariants(connection)] == ["I2"]
    engine.recount_site(connection, "town")
    assert broken_invariants(connection) == []


def test_units_of_an_idle_site_are_checked_in_full_only(connection: Connection, worker: Worker) -> None:
    idle_site(connection, worker)
    assert full(connection) == []
    connection.execute("delete from content_item_pipeline_state where pipeline = 'ocr'")
    assert broken_invariants(connection) == []
    assert full(connection) == ["I2"]
    idle(connection, hours=2)
    assert [row[0] for row in broken_invariants(connection)] == ["I2"]
    assert full(connection) == ["I2"]


def test_open_units_of_an_idle_site_are_checked(connection: Connection, worker: Worker) -> None:
    idle_site(connection, worker)
    connection.execute("update content_item_pipeline_state set status = 'pending' where pipeline = 'deploy'")
    assert [row[0] for row in broken_invariants(connection)] == ["I1"]
    assert sorted(full(connection)) == ["I1", "I2"]


def test_claims_that_contradict_their_job(connection: Connection, worker: Worker) -> None:
    idle_site(connection, worker)
    connection.execute(
        "update job_claims set settled_as = 'failed' where job_id = (select min(job_id) from job_claims)"
    )
    assert [row[0] for row in broken_invariants(connection)] == ["I8"]
    at(connection, datetime.now(UTC) + timedelta(minutes=20))
    assert broken_invariants(connection) == [], "only recent jobs are checked"
    assert full(connection) == ["I8"]


def test_runs_that_contradict_their_site(connection: Connection, worker: Worker) -> None:
    idle_site(connection, worker)
    connection.execute("insert into pipeline_runs (subdomain, reason) values ('town', 'by hand')")
    assert "is open but is not the current run of its site" in broken_invariants(connection)[0][4]
    connection.execute("delete from pipeline_runs where reason = 'by hand'")
    connection.execute("update sites set outcome = 'partial'")
    assert [row[0] for row in broken_invariants(connection)] == ["I4"]
    connection.execute("update sites set outcome = 'succeeded', current_stage = 'deploy'")
    assert "I4" in [row[0] for row in broken_invariants(connection)]


def test_first_event_since(connection: Connection) -> None:
    """Compared with a plain query, at every event and between, with gaps and events of type scheduled."""
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute(
            "insert into procrastinate_events (id, job_id, type, at)"
            " select n * n, n, case when n % 5 = 0 then 'scheduled' else 'started' end::procrastinate_job_event_type,"
            " case when n % 5 = 0 then timestamptz '9000-01-01'"
            " else timestamptz '2026-01-01' + n / 3 * interval '1 s' end"
            " from generate_series(1, 60) n"
        )
    wrong = rows(
        connection,
        "select s.at, found.id, wanted.id from (select timestamptz '2026-01-01' + n * interval '0.5 s' as at"
        " from generate_series(-3, 45) n) s"
        " cross join lateral (select min(id) as id from procrastinate_events"
        "   where type <> 'scheduled' and id >= clerk_first_event_since(s.at)) found"
        " cross join lateral (select min(id) as id from procrastinate_events"
        "   where type <> 'scheduled' and at >= s.at) wanted"
        " where found.id is distinct from wanted.id",
    )
    assert wrong == []
    connection.execute("delete from procrastinate_events")
    assert one(connection, "select clerk_first_event_since(now())") == 0


# Queries that users of legacy clerk run, literally

LEGACY_QUERIES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        (
            "SELECT current_stage, COUNT(*) FROM sites WHERE current_stage IS NOT NULL GROUP BY current_stage"
            " ORDER BY 2 DESC;"
        ),
        [("completed", 2), ("ocr", 1)],
    ),
    (
        "SELECT COUNT(*) FROM sites WHERE current_stage != 'completed' AND updated_at < NOW() - INTERVAL '2 hours';",
        [(1,)],
    ),
    (
        "SELECT ROUND(100.0 * SUM(ocr_failed) / NULLIF(SUM(ocr_total), 0), 1) FROM sites WHERE ocr_total > 0;",
        [(16.7,)],
    ),
    (
        (
            "SELECT ROUND(100.0 * COUNT(*) FILTER (WHERE current_stage = 'completed'"
            " OR updated_at >= NOW() - INTERVAL '2 hours') / NULLIF(COUNT(*), 0), 1)"
            " FROM sites WHERE current_stage IS NOT NULL;"
        ),
        [(66.7,)],
    ),
]


def test_legacy_queries(connection: Connection, worker: Worker) -> None:
    for name in ("a", "b", "c"):
        (broken, *_) = add_site(connection, name, documents=2)
        start(connection, name, phase=2)
        if name != "c":
            finish_phase(worker, failing=(broken,) if name == "a" else ())
            drain(worker)
    connection.execute("insert into sites (subdomain) values ('never')")
    idle(connection, "b")
    idle(connection, "c")
    for query, expected in LEGACY_QUERIES:
        found = [tuple(float(v) if not isinstance(v, str) else v for v in row) for row in rows(connection, query)]
        assert found == expected, query


def test_docs_views_page_is_current(connection: Connection, folder: SqlFolder) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(folder), "run: python -m tests.docs.views_page"
    text = PAGE.read_text(encoding="utf-8").replace("\\|", "|")
    public = [item.name for item in folder.objects if item.file.startswith("sql/views/public/")]
    comments = connection.execute(
        "select d.description from pg_description d join pg_class c on c.oid = d.objoid and c.relkind = 'v'"
        " where c.relnamespace = 'public'::regnamespace and c.relname = any (%s)",
        [public],
    ).fetchall()
    assert len(comments) > len(public) > 20
    for (comment,) in comments:
        assert comment in text
