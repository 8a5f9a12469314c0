"""The periodic task of CLERK_MAINTAIN_HOUR, in real workers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from psycopg import errors

from clerk.app import ClerkApp
from clerk.db.connection import connect_to
from clerk.errors import SettingError
from tests.db.test_maintenance import hold_snapshot, sizes
from tests.faults.pipeline import Pipeline, until

HOUR = 3
_JOBS = "select count(*) from procrastinate_jobs where task_name = 'clerk.maintain'"
_WAITING = """
select count(*) from pg_stat_activity
where query like 'drop index concurrently%' and wait_event_type = 'Lock' and datname = current_database()
"""
INVALID = "ignored_results_why_ccnew"


def seconds_until_the_hour() -> float:
    """Seconds until shortly after HOUR, when a worker defers the job."""
    now = datetime.now(UTC)
    due = now.replace(hour=HOUR, minute=0, second=20, microsecond=0)
    return ((due if due > now else due + timedelta(days=1)) - now).total_seconds()


def test_nothing_is_deferred_without_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def crons() -> dict[str, str]:
        """The periodic tasks of a worker that starts now."""
        app = ClerkApp()
        for _ in range(2):
            app._worker()
        return {task.task.name: task.cron for task in app.periodic_registry.periodic_tasks.values()}

    assert "clerk.rescue" in crons()
    assert "clerk.maintain" not in crons()
    monkeypatch.setenv("CLERK_MAINTAIN_HOUR", "0")
    assert crons()["clerk.maintain"] == "0 0 * * *"
    monkeypatch.setenv("CLERK_MAINTAIN_HOUR", "24")
    with pytest.raises(SettingError, match="write an hour from 0 to 23"):
        crons()


def add_invalid_index(pipeline: Pipeline) -> None:
    """An index as an interrupted reindex leaves it."""
    pipeline.connection.execute(
        "insert into ignored_results (job_id, holder, status, why) select 1, '', '', 'stale' from generate_series(1, 2)"
    )
    with pytest.raises(errors.UniqueViolation):
        pipeline.connection.execute(f"create unique index concurrently {INVALID} on ignored_results (why)".encode())


def test_the_worker_maintains_the_database_at_the_hour(pipeline: Pipeline) -> None:
    add_invalid_index(pipeline)
    worker = pipeline.worker(
        "coordinator", clock=seconds_until_the_hour(), variables={"CLERK_MAINTAIN_HOUR": str(HOUR)}
    )
    until(lambda: pipeline.scalar(f"{_JOBS} and status = 'succeeded'"), "maintenance")
    assert pipeline.scalar(_JOBS) == 1
    assert INVALID not in sizes(pipeline.connection)
    assert worker.stop() == 0


def test_an_aborted_job_ends_its_statement(pipeline: Pipeline) -> None:
    add_invalid_index(pipeline)
    with connect_to(pipeline.url) as other:
        hold_snapshot(other)
        job = pipeline.scalar(
            "insert into procrastinate_jobs (queue_name, task_name, args)"
            " values ('coordinator', 'clerk.maintain', '{\"timestamp\": 0}') returning id"
        )
        worker = pipeline.worker("coordinator")
        until(lambda: pipeline.scalar(_WAITING), "a statement that waits for the snapshot")
        pipeline.connection.execute("select procrastinate_cancel_job_v1(%s, true, false)", [job])
        until(lambda: pipeline.job_status(job) == "aborted", "aborted")
        assert pipeline.scalar(_WAITING) == 0
        assert worker.stop() == 0


def test_a_worker_that_does_not_own_the_tables_says_so(pipeline: Pipeline) -> None:
    # The triggers with which these tests observe jobs write to a schema of their own.
    pipeline.connection.execute("grant usage on schema faults to clerk_worker")
    pipeline.connection.execute("grant all on all tables in schema faults to clerk_worker")
    pipeline.connection.execute("grant all on all sequences in schema faults to clerk_worker")
    options = quote("-c role=clerk_worker")
    worker = pipeline.worker("coordinator", url=f"{pipeline.url}&options={options}")
    job = pipeline.scalar(
        "insert into procrastinate_jobs (queue_name, task_name, args)"
        " values ('coordinator', 'clerk.maintain', '{\"timestamp\": 0}') returning id"
    )
    until(lambda: pipeline.job_status(job) == "failed", "failed")
    assert worker.has_logged("the database user clerk_worker may not vacuum or reindex the table clerk_migrations")
    assert worker.stop() == 0
