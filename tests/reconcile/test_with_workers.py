"""Reconciliation with real worker processes."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import verify_invariants
from tests.bench.legacy_backlog import create_backlog
from tests.conftest import Databases, Url
from tests.engine.helpers import Connection, Worker, drain, rows
from tests.faults.pipeline import Pipeline, pipeline_on, until
from tests.reconcile.repair_helpers import repair_all


def failed_checks(connection: Connection, *, full: bool = False) -> set[str]:
    return {check.name for check in verify_invariants(connection, full=full) if not check.ok}


def reconcile_until_ended(pipeline: Pipeline, run: int) -> str:
    """Reconcile while the workers run."""

    def ended() -> str | None:
        repair_all(pipeline.connection)
        return pipeline.outcome(run)

    return str(until(ended, "the end of the run"))


def test_triggers_disabled_while_workers_run(pipeline: Pipeline) -> None:
    """A job ends without accounting; then the triggers are enabled again."""
    documents = pipeline.add_site(documents=4)
    pipeline.plan_item("ocr", documents[0], "wait:gate")
    run = pipeline.start_run(first_phase=2)
    pipeline.worker(concurrency=4)
    until(lambda: pipeline.is_running("ocr", documents[0]), "at work")
    pipeline.connection.execute("alter table procrastinate_jobs disable trigger user")
    assert "triggers" in failed_checks(pipeline.connection)
    pipeline.open_gate("gate")
    job = pipeline.job_id("ocr", documents[0])
    until(lambda: pipeline.job_status(job) == "succeeded", "the end without accounting")
    # Enables Procrastinate's triggers too, which clerk replaces.
    pipeline.connection.execute("alter table procrastinate_jobs enable trigger user")
    Migrator(pipeline.connection, default_folder()).up()
    # The trigger that writes events was disabled too, and the quick check of I8 starts from events.
    assert "waiting" in failed_checks(pipeline.connection)
    assert {"I8", "waiting"} <= failed_checks(pipeline.connection, full=True)
    assert reconcile_until_ended(pipeline, run) == "succeeded"
    pipeline.check_invariants()
    assert repair_all(pipeline.connection) == []


def test_database_restored_from_a_backup_of_an_active_run(database: Url, server: Url, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    with pipeline_on(database, tmp_path / "before") as pipeline:
        documents = pipeline.add_site(documents=6)
        for document in documents[3:]:
            pipeline.plan_item("ocr", document, "wait:never")
        run = pipeline.start_run()
        worker = pipeline.worker(concurrency=6)
        until(lambda: pipeline.counters("ocr") == (6, 3, 0), "half of them read")
        until(lambda: all(pipeline.is_running("ocr", document) for document in documents[3:]), "the others at work")
        worker.kill()
        pipeline.connection.execute("drop schema faults cascade")
    databases = Databases(server)
    try:
        restored = databases.create(urlsplit(database).path.lstrip("/"))
        with pipeline_on(restored, tmp_path / "after") as pipeline:
            pipeline.connection.execute("update job_claims set lease_until = now() - interval '1 hour'")
            assert "I7" in failed_checks(pipeline.connection)
            pipeline.worker(concurrency=4)
            assert reconcile_until_ended(pipeline, run) == "succeeded"
            # check_invariants does not apply: its records are of one half only.
            until(lambda: failed_checks(pipeline.connection) == set(), "no violation")
            assert {step.item for step in pipeline.steps(stage="ocr")} == set(documents[3:]), (
                "no document is processed twice"
            )
            assert repair_all(pipeline.connection) == []
    finally:
        databases.drop_all()


@pytest.mark.parametrize("clock", [3600.0, -3600.0], ids=["ahead", "behind"])
def test_worker_whose_clock_is_off_by_an_hour(pipeline: Pipeline, clock: float) -> None:
    """All times are those of the database."""
    documents = pipeline.add_site(documents=3)
    pipeline.plan_item("ocr", documents[0], "transient", "wait:gate")
    run = pipeline.start_run()
    pipeline.worker(concurrency=4, clock=clock)
    # With the worker's clock the retry would be an hour late or early.
    until(lambda: len(pipeline.steps(item=documents[0], stage="ocr", attempt=1)) == 1, "the second attempt")
    assert repair_all(pipeline.connection) == [], "its leases are live"
    pipeline.open_gate("gate")
    assert pipeline.wait_for_end(run) == "succeeded"
    wrong_times = (
        "select at from procrastinate_events where at not between now() - interval '10 minutes' and now()"
        " union all select updated_at from content_item_pipeline_state"
        " where updated_at not between now() - interval '10 minutes' and now()"
        " union all select claimed_at from job_claims"
        " where claimed_at not between now() - interval '10 minutes' and now()"
    )
    assert pipeline.rows(wrong_times) == []
    pipeline.check_invariants()


def test_the_backlog_of_legacy_clerk(connection: Connection) -> None:
    """Missing coordinators and failed jobs without accounting: one reconciliation continues all of them."""
    create_backlog(connection, stuck=10, without_coordinator=7, failed=100)
    assert failed_checks(connection) == {"waiting"}
    assert len(repair_all(connection)) == 107
    assert repair_all(connection) == []
    drain(Worker(connection))
    assert failed_checks(connection) == set()
    assert rows(connection, "select distinct current_stage, outcome from sites") == [("completed", "succeeded")]
