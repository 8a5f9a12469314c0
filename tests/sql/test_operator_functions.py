"""Actions of operators and of the scheduler: start, cancel, retry, rewind, pause, schedule, refresh."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread

import pytest

from clerk.errors import RunInProgress, RunSuperseded, SiteNotFound, UnknownStage
from clerk.pipeline import engine
from tests.engine.helpers import (
    Connection,
    Worker,
    add_documents,
    add_site,
    archive,
    broken_invariants,
    coordinators,
    counters,
    drain,
    finish_phase,
    ignored,
    job_status,
    one,
    rows,
    run_with,
    site,
    start,
    unit,
    waiting,
)
from tests.reconcile.repair_helpers import repair_all


def test_a_run_from_end_to_end(connection: Connection) -> None:
    items = add_site(connection, documents=3)
    worker = Worker(connection)
    run = engine.start_run(connection, "town", "test")

    assert site(connection)["current_stage"] == "fetch"
    finish_phase(worker)
    assert (site(connection)["current_stage"], counters(connection, "ocr")) == ("ocr", (3, 0, 0))
    finish_phase(worker, failing=(items[0],))
    assert site(connection)["current_stage"] == "extraction"
    assert counters(connection, "compilation") == (1, 0, 0)
    assert counters(connection, "extraction") == (2, 0, 0), "an unreadable document is not extracted"
    finish_phase(worker)
    assert site(connection)["current_stage"] == "deploy"
    finish_phase(worker)

    assert (site(connection)["current_stage"], site(connection)["outcome"]) == ("completed", "partial")
    assert rows(connection, "select outcome, ocr_total, ocr_completed, ocr_failed from run_history") == [
        ("partial", 3, 2, 1)
    ]
    assert rows(connection, "select phase, deferred_count from pipeline_transitions order by 1") == [
        (phase, 1) for phase in (1, 2, 3, 4)
    ]
    assert one(connection, "select bool_and(advanced_at is not null) from pipeline_transitions")
    assert one(connection, "select count(*) from procrastinate_jobs where status in ('todo', 'doing')") == 0
    assert broken_invariants(connection) == []
    with pytest.raises(RunSuperseded):
        engine.start_phase(connection, "town", run, 2)


def test_errors(connection: Connection) -> None:
    add_site(connection)
    run = start(connection)
    with pytest.raises(SiteNotFound):
        engine.start_run(connection, "nowhere")
    with pytest.raises(RunInProgress, match=f"run {run} of town is in progress"):
        engine.start_run(connection, "town")
    with pytest.raises(RunSuperseded):
        engine.start_phase(connection, "town", run + 1, 2)
    with pytest.raises(SiteNotFound):
        engine.cancel_run(connection, "nowhere")
    with pytest.raises(SiteNotFound):
        engine.retry_failed(connection, "nowhere")
    with pytest.raises(SiteNotFound):
        engine.pause_site(connection, "nowhere", "me")
    with pytest.raises(SiteNotFound):
        engine.resume_site(connection, "nowhere")
    with pytest.raises(UnknownStage):
        engine.retry_failed(connection, "town", "nap")
    with pytest.raises(UnknownStage):
        engine.rewind(connection, "town", "completed")
    assert engine.advance_phase(connection, "nowhere", 1, 1) == "stale"
    assert engine.start_refresh_run(connection, "nowhere") is None
    assert engine.redefer_coordinator(connection, "nowhere") is False
    assert engine.redefer_unit(connection, 0, "ocr") is False
    assert engine.rescue_job(connection, 0) == "left alone"


@pytest.mark.parametrize("documents", [0, 1])
def test_phase_without_units_and_with_one(connection: Connection, documents: int) -> None:
    add_site(connection, documents=documents)
    run = start(connection, phase=2)
    assert counters(connection, "ocr") == (documents, 0, 0)
    assert coordinators(connection, run, 2) == 1 - documents, "a phase without units is complete immediately"
    drain(Worker(connection))
    assert site(connection)["outcome"] == ("succeeded" if documents else "no_documents")
    assert broken_invariants(connection) == []


def test_phase_3_without_extraction_waits_for_compilation(connection: Connection) -> None:
    items = add_site(connection, documents=1)
    worker = Worker(connection)
    engine.start_run(connection, "town")
    drain(worker)
    run = engine.rewind(connection, "town", "compilation")
    assert (counters(connection, "extraction"), counters(connection, "compilation")) == ((0, 0, 0), (1, 0, 0))
    assert coordinators(connection, run, 3) == 0
    worker.finish(worker.take("compilation"))
    assert coordinators(connection, run, 3) == 1
    assert unit(connection, items[0], "extraction")["status"] == "processed"


def test_advance_is_accepted_once(connection: Connection) -> None:
    add_site(connection)
    run = start(connection)
    worker = Worker(connection)
    assert engine.advance_phase(connection, "town", run, 1) == "stale", "not before the phase is complete"
    worker.finish(worker.take("fetch"))
    assert engine.advance_phase(connection, "town", run, 2) == "stale", "not for another phase"
    assert engine.advance_phase(connection, "town", run, 1) == "started phase 2"
    assert engine.advance_phase(connection, "town", run, 1) == "stale"
    assert counters(connection, "ocr") == (2, 0, 0)
    assert one(connection, "select count(*) from procrastinate_jobs where queue_name = 'ocr'") == 2


def test_supersede_ends_the_older_run(connection: Connection) -> None:
    items = add_site(connection)
    older = start(connection, phase=2)
    worker = Worker(connection)
    running = worker.take("ocr")

    newer = engine.start_run(connection, "town", "again", supersede=True)

    assert rows(
        connection, "select outcome, outcome_reason, ocr_failed from run_history where run_id = %s", [older]
    ) == [("cancelled", "superseded: again", 2)]
    assert {unit(connection, item)["error_code"] for item in items} == {"Superseded"}
    assert one(connection, "select abort_requested from procrastinate_jobs where id = %s", [running.id])
    assert waiting(connection, "ocr") == []
    assert worker.finish(running), "its claim is valid, but the result is stale"
    assert ignored(connection) == ["stale"]
    assert (site(connection)["run_id"], counters(connection, "ocr")) == (newer, (0, 0, 0))
    finish_phase(worker)
    assert waiting(connection, "ocr") == items, "not a permanent failure, so the next run includes it"
    assert broken_invariants(connection) == []


def test_run_with_fewer_units_than_the_one_before(connection: Connection) -> None:
    add_site(connection, documents=5)
    worker = Worker(connection)
    engine.start_run(connection, "town")
    drain(worker)
    new = add_documents(connection, "town", 1)
    engine.start_run(connection, "town")
    finish_phase(worker)
    assert (counters(connection, "ocr"), waiting(connection, "ocr")) == ((1, 0, 0), new)
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


def test_cancel(connection: Connection) -> None:
    items = add_site(connection)
    run = start(connection, phase=2)
    worker = Worker(connection)
    running = worker.take("ocr")

    assert engine.cancel_run(connection, "town", "enough") == run
    assert engine.cancel_run(connection, "town") is None

    assert (site(connection)["current_stage"], site(connection)["outcome"]) == ("completed", "cancelled")
    assert rows(connection, "select outcome_reason from pipeline_runs") == [("enough",)]
    assert {unit(connection, item)["error_code"] for item in items} == {"RunCancelled"}
    assert counters(connection, "ocr") == (2, 0, 2)
    assert job_status(connection, running.id) == "doing"
    assert worker.finish(running, "aborted")
    assert ignored(connection) == ["stale"]
    assert coordinators(connection, run, 2) == 0
    assert broken_invariants(connection) == []


def test_cancel_between_coordinator_and_advance(connection: Connection) -> None:
    add_site(connection)
    start(connection)
    worker = Worker(connection)
    worker.finish(worker.take("fetch"))
    engine.cancel_run(connection, "town")
    assert worker.coordinate(worker.take("coordinator")) == "stale"
    assert repair_all(connection) == []
    assert broken_invariants(connection) == []


def test_purge_ends_the_run_and_deletes_its_jobs(connection: Connection) -> None:
    items = add_site(connection, documents=3)
    worker = Worker(connection)
    run_with(worker)
    new = add_documents(connection, "town", 2)
    run = start(connection, phase=2)
    running = worker.take("ocr")

    assert engine.purge_site(connection, "town") == engine.Purged(
        run, one(connection, "select (detail ->> 'deleted_jobs')::integer from operator_actions"), 1
    )

    assert rows(connection, "select id, abort_requested from procrastinate_jobs") == [(running.id, True)]
    assert (site(connection)["current_stage"], site(connection)["outcome"]) == ("completed", "cancelled")
    assert [unit(connection, item)["status"] for item in items] == ["processed"] * 3, "nothing is processed again"
    assert broken_invariants(connection) == []
    assert worker.finish(running, "aborted")
    assert ignored(connection) == ["stale"]
    engine.purge_site(connection, "town")
    assert repair_all(connection) == []
    engine.start_run(connection, "town")
    finish_phase(worker)
    assert waiting(connection, "ocr") == new
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


def test_purge_resets_counters_without_a_run(connection: Connection) -> None:
    add_site(connection)
    engine.initialize_stage(connection, "town", "ocr", 2)
    engine.increment_completed(connection, "town", "ocr")
    assert engine.purge_site(connection, "town") == engine.Purged(None, 0, 0)
    assert (site(connection)["current_stage"], counters(connection, "ocr")) == (None, (0, 0, 0))
    assert engine.purge_site(connection, "town") == engine.Purged(None, 0, 0)
    assert one(connection, "select count(*) from operator_actions where action = 'purge'") == 1
    with pytest.raises(SiteNotFound):
        engine.purge_site(connection, "nowhere")


def test_retry_within_the_phase(connection: Connection) -> None:
    items = add_site(connection, documents=3)
    run = start(connection, phase=2)
    worker = Worker(connection)
    for _ in range(2):
        worker.finish(worker.take("ocr"), "failed", "PdfBroken")
    assert counters(connection, "ocr") == (3, 0, 2)

    assert engine.retry_failed(connection, "town") == engine.Retried(run, "ocr", 2)

    assert counters(connection, "ocr") == (3, 0, 0)
    assert [unit(connection, item)["status"] for item in items] == ["pending"] * 3
    assert unit(connection, items[0])["attempt_count"] == 1, "attempts of the run are kept"
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


def test_retry_within_the_phase_includes_older_failures(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    worker = Worker(connection)
    run_with(worker, "ocr", items=(items[0],))
    add_documents(connection, "town", 1)
    run = start(connection, phase=2)
    assert counters(connection, "ocr") == (1, 0, 0)

    assert engine.retry_failed(connection, "town", "ocr") == engine.Retried(run, "ocr", 1)

    assert counters(connection, "ocr") == (2, 0, 0)
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


def test_retry_after_the_run_processes_only_failed_documents(connection: Connection) -> None:
    items = add_site(connection, documents=3)
    worker = Worker(connection)
    run_with(worker, "ocr", items=(items[0],))
    before = site(connection)["run_id"]

    retried = engine.retry_failed(connection, "town", failed_only=True)

    assert (retried.stage, retried.units) == ("ocr", 1)
    assert retried.run_id is not None
    assert retried.run_id > before
    assert waiting(connection, "ocr") == [items[0]]
    finish_phase(worker)
    assert waiting(connection, "extraction") == [items[0]], "only the retried document"
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert engine.retry_failed(connection, "town") == engine.Retried(retried.run_id, None, 0)
    assert broken_invariants(connection) == []


@pytest.mark.parametrize(
    "cause",
    [
        "update content_item_pipeline_state set error_code = 'PdfMissing' where content_item_id = %s",
        "update content_item_pipeline_state set error_code = 'PdfAltered' where content_item_id = %s",
        "update content_items set fetch_error_code = 'DownloadFailed' where id = %s",
    ],
    ids=["lost", "damaged", "never had"],
)
def test_retry_of_a_document_without_file_fetches_first(connection: Connection, cause: str) -> None:
    items = add_site(connection, documents=3)
    worker = Worker(connection)
    run_with(worker, "ocr", items=(items[0], items[1]))
    connection.execute(cause, [items[0]])

    assert engine.retry_failed(connection, "town", "ocr").units == 2

    assert site(connection)["current_stage"] == "fetch"
    finish_phase(worker)
    assert waiting(connection, "ocr") == items[:2], "the other retried document as well, and no more"
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


def test_retry_of_an_earlier_phase_supersedes(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    run = start(connection, phase=2)
    worker = Worker(connection)
    finish_phase(worker, failing=(items[0],))
    looking = worker.take("extraction")

    retried = engine.retry_failed(connection, "town")

    assert (retried.stage, retried.units) == ("ocr", 1)
    assert retried.run_id != run
    assert worker.finish(looking)
    finish_phase(worker)
    assert waiting(connection, "extraction") == items, "the retried one and the interrupted one"
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


def test_retry_of_a_later_phase_keeps_the_run(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    worker = Worker(connection)
    run_with(worker, "extraction", items=(items[0],))
    new = add_documents(connection, "town", 1)
    run = start(connection, phase=2)

    assert engine.retry_failed(connection, "town", "extraction") == engine.Retried(run, "extraction", 1)

    assert waiting(connection, "ocr") == new, "results of earlier phases are kept"
    finish_phase(worker)
    assert waiting(connection, "extraction") == [items[0], *new]
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


def test_retry_of_site_level_stages(connection: Connection) -> None:
    add_site(connection, documents=2)
    worker = Worker(connection)
    for stage in ("compilation", "deploy"):
        assert run_with(worker, stage).startswith("failed: ")
        retried = engine.retry_failed(connection, "town", stage)
        assert (retried.stage, retried.units) == (stage, 1)
        assert waiting(connection, stage) == [archive(connection)]
        assert waiting(connection, "ocr") == waiting(connection, "extraction") == []
        drain(worker)
        assert site(connection)["outcome"] == "succeeded"
        add_documents(connection, "town", 1)
    assert broken_invariants(connection) == []


def test_retry_includes_every_failed_stage(connection: Connection) -> None:
    items = add_site(connection, documents=3)
    worker = Worker(connection)
    run_with(worker, "ocr", items=(items[0],))
    run_with(worker)
    connection.execute(
        "update content_item_pipeline_state set status = 'failed_terminal', error_code = 'PluginFailed'"
        " where content_item_id = %s and pipeline = 'extraction' or pipeline = 'deploy'",
        [items[1]],
    )

    retried = engine.retry_failed(connection, "town")

    assert (retried.stage, retried.units) == ("ocr, extraction, deploy", 3)
    assert waiting(connection, "ocr") == [items[0]]
    finish_phase(worker)
    assert waiting(connection, "extraction") == items[:2], "the retried ones, and no more"
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert engine.retry_failed(connection, "town").units == 0
    assert rows(connection, "select detail ->> 'stage' from operator_actions where action = 'retry' order by id") == [
        ("ocr",), ("extraction",), ("deploy",)
    ]  # fmt: skip
    assert broken_invariants(connection) == []


def test_retry_includes_both_stages_of_a_phase(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    worker = Worker(connection)
    assert run_with(worker, "compilation", "extraction").startswith("failed: ")
    retried = engine.retry_failed(connection, "town")
    assert (retried.stage, retried.units) == ("compilation, extraction", 3)
    assert waiting(connection, "compilation") == [archive(connection)]
    assert waiting(connection, "extraction") == items
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


def test_a_later_stage_is_retried_even_if_the_earlier_one_fails_again(connection: Connection) -> None:
    """Without new text the run would otherwise end after OCR, as nothing seems to have changed."""
    items = add_site(connection, documents=3)
    worker = Worker(connection)
    run_with(worker, "ocr", "extraction", items=(items[0], items[1]))
    run_with(worker)
    connection.execute(
        "update content_item_pipeline_state set status = 'failed_terminal', error_code = 'PluginFailed'"
        " where content_item_id = %s and pipeline = 'extraction'",
        [items[2]],
    )
    assert engine.retry_failed(connection, "town").stage == "ocr, extraction"
    finish_phase(worker, failing=tuple(items))
    assert waiting(connection, "extraction") == [items[2]]
    drain(worker)
    assert site(connection)["outcome"] == "partial"
    assert unit(connection, items[2], "extraction")["status"] == "processed"
    assert broken_invariants(connection) == []


def test_retry_expedites_scheduled_retries(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    run = start(connection, phase=2)
    worker = Worker(connection)
    for _ in items:
        worker.retry(worker.take("ocr"), at=datetime.now(UTC) + timedelta(hours=1), code="Timeout")
    assert worker.fetch("ocr") is None

    assert engine.retry_failed(connection, "town", failed_only=True) == engine.Retried(run, None, 0)
    assert worker.fetch("ocr") is None
    assert engine.retry_failed(connection, "town") == engine.Retried(run, None, 2)
    assert worker.fetch("ocr") is not None


@pytest.mark.parametrize(
    ("stage", "again"),
    [
        ("fetch", []),
        ("ocr", ["ocr", "ocr", "extraction", "extraction", "compilation", "deploy"]),
        ("extraction", ["extraction", "extraction", "compilation", "deploy"]),
        ("compilation", ["compilation", "deploy"]),
        ("deploy", ["deploy"]),
    ],
)
def test_rewind_repeats_a_stage_and_all_later_ones(connection: Connection, stage: str, again: list[str]) -> None:
    add_site(connection, documents=2)
    worker = Worker(connection)
    run_with(worker)
    run = engine.rewind(connection, "town", stage)
    drain(worker)
    done = rows(
        connection,
        "select queue_name from procrastinate_jobs"
        " where args ->> 'run_id' = %s and args ? 'stage' and status = 'succeeded'",
        [str(run)],
    )
    assert sorted(row[0] for row in done if row[0] != "fetch") == sorted(again)
    assert broken_invariants(connection) == []


def test_rewind_of_an_active_run(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    start(connection, phase=3)
    worker = Worker(connection)
    old = worker.take("extraction")
    engine.rewind(connection, "town", "ocr")
    assert worker.finish(old)
    assert ignored(connection) == ["stale"]
    assert waiting(connection, "ocr") == items
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert broken_invariants(connection) == []


def retry_by_hand(connection: Connection, item: int) -> None:
    connection.execute(
        "select procrastinate_retry_job_v2(%s, null, null, null, null)", [unit(connection, item)["job_id"]]
    )


def test_late_document_is_published_by_a_refresh_run(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    worker = Worker(connection)
    run_with(worker, "ocr", items=(items[0],))
    run = site(connection)["run_id"]
    assert engine.start_refresh_run(connection, "town") is None, "not dirty"

    retry_by_hand(connection, items[0])
    assert worker.finish(worker.take("ocr"))

    assert site(connection)["dirty"]
    assert rows(connection, "select ocr_completed, ocr_failed from run_history where run_id = %s", [run]) == [(2, 0)]
    fresh = engine.start_refresh_run(connection, "town")
    assert fresh is not None
    assert fresh > run
    assert not site(connection)["dirty"]
    assert waiting(connection, "compilation") == [archive(connection)]
    assert waiting(connection, "extraction") == [items[0]]
    assert engine.start_refresh_run(connection, "town") is None, "one is active"
    drain(worker)
    assert site(connection)["outcome"] == "succeeded"
    assert repair_all(connection) == []
    assert broken_invariants(connection) == []


def test_late_document_before_compilation_needs_no_refresh_run(connection: Connection) -> None:
    """The active run has not compiled yet, so it includes the document."""
    items = add_site(connection, documents=2)
    worker = Worker(connection)
    run_with(worker, "ocr", items=(items[0],))
    engine.start_run(connection, "town")
    retry_by_hand(connection, items[0])
    assert worker.finish(worker.take("ocr"))
    assert site(connection)["dirty"]
    drain(worker)
    assert (site(connection)["outcome"], site(connection)["dirty"]) == ("succeeded", False)
    assert unit(connection, items[0], "extraction")["status"] == "processed"
    assert broken_invariants(connection) == []


def test_late_document_during_compilation_causes_a_refresh_run(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    start(connection, phase=2)
    worker = Worker(connection)
    finish_phase(worker, failing=(items[0],))
    retry_by_hand(connection, items[0])
    assert worker.finish(worker.take("ocr"))
    drain(worker)
    assert (site(connection)["outcome"], site(connection)["dirty"]) == ("succeeded", True)
    assert [repair.found for repair in repair_all(connection)] == ["late documents were processed after their phase"]
    drain(worker)
    assert (site(connection)["outcome"], site(connection)["dirty"]) == ("succeeded", False)
    assert broken_invariants(connection) == []


@pytest.mark.parametrize("what", ["site", "queue"])
def test_pause_and_resume(connection: Connection, what: str) -> None:
    items = add_site(connection, documents=3)
    start(connection, phase=2)
    worker = Worker(connection)
    running = worker.take("ocr")
    pause = engine.pause_site if what == "site" else engine.pause_queue
    resume = engine.resume_site if what == "site" else engine.resume_queue
    name = "town" if what == "site" else "ocr"

    assert pause(connection, name, "me, for a test")
    assert not pause(connection, name, "again")
    assert worker.fetch("ocr") is None
    assert worker.retry(running), "a running job continues; its retry is paused"
    assert worker.fetch("ocr") is None
    assert engine.retry_failed(connection, "town").units == 0, "a paused retry is not expedited"
    assert worker.fetch("ocr") is None
    assert repair_all(connection) == []

    assert resume(connection, name)
    assert not resume(connection, name)
    for _ in items:
        worker.finish(worker.take("ocr"))
    assert broken_invariants(connection) == []


def test_resuming_one_of_two_pauses_is_not_enough(connection: Connection) -> None:
    add_site(connection)
    start(connection, phase=2)
    worker = Worker(connection)
    engine.pause_site(connection, "town", "me")
    engine.pause_queue(connection, "ocr", "me")
    engine.resume_site(connection, "town")
    assert worker.fetch("ocr") is None
    engine.resume_queue(connection, "ocr")
    assert worker.fetch("ocr") is not None


def test_new_jobs_of_a_paused_site_are_paused(connection: Connection) -> None:
    add_site(connection)
    add_site(connection, "other", documents=1)
    engine.pause_site(connection, "town", "me")
    engine.start_run(connection, "town")
    engine.start_run(connection, "other")
    worker = Worker(connection)
    assert worker.take("fetch").args["subdomain"] == "other"
    assert worker.fetch("fetch") is None
    engine.resume_site(connection, "town")
    assert worker.take("fetch").args["subdomain"] == "town"


def test_job_retried_during_a_resume_is_released_by_reconciliation(
    connection: Connection, new_worker: Callable[[str], Worker]
) -> None:
    """Its trigger still sees the pause, and the resume does not see the uncommitted job."""
    add_site(connection, documents=1)
    start(connection, phase=2)
    worker, operator = new_worker("worker"), new_worker("operator")
    job = worker.take("ocr")
    engine.pause_site(connection, "town", "me")
    with worker.connection.transaction():
        worker.retry(job)
        engine.resume_site(operator.connection, "town")
    assert worker.fetch("ocr") is None
    assert [repair.action for repair in repair_all(connection)] == ["schedule them now"]
    assert worker.fetch("ocr") is not None
    assert repair_all(connection) == []


def test_due_sites_are_started_in_order_of_waiting(connection: Connection) -> None:
    for name, age, more in [
        ("old", "3 days", ""),
        ("older", "4 days", ""),
        ("never", None, ""),
        ("fresh", "1 hour", ""),
        ("quick", "2 hours", "run_interval = '1 hour'"),
        ("slow", "5 days", "run_interval = '7 days'"),
        ("paused", "9 days", "paused_at = now()"),
        ("left", "8 days", "current_stage = 'ocr'"),
        ("active", "6 days", ""),
    ]:
        add_site(connection, name)
        connection.execute("update sites set updated_at = now() - %s::interval where subdomain = %s", [age, name])
        if more:
            connection.execute(f"update sites set {more} where subdomain = '{name}'")
    engine.start_run(connection, "active")
    connection.execute("update sites set updated_at = now() - interval '6 days' where subdomain = 'active'")

    due = [name for (name,) in rows(connection, "select subdomain from due_sites")]
    started = []
    while subdomain := engine.start_next_due_site(connection):
        started.append(subdomain)

    assert due == started, "`update --all --dry-run` lists what `update --all` starts"
    assert started == ["never", "left", "older", "old", "quick"]
    assert one(connection, "select count(*) from pipeline_runs where reason = 'scheduled'") == 5


def test_concurrent_schedulers_start_each_site_once(
    connection: Connection, new_worker: Callable[[str], Worker]
) -> None:
    for number in range(40):
        add_site(connection, f"town-{number}", documents=0)
    barrier = Barrier(4)
    started: list[str] = []

    def schedule(scheduler: Worker) -> None:
        barrier.wait()
        while subdomain := engine.start_next_due_site(scheduler.connection):
            started.append(subdomain)

    threads = [Thread(target=schedule, args=[new_worker(f"scheduler {number}")]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(started) == sorted(set(started))
    assert len(started) == 40
    assert one(connection, "select count(*) from pipeline_runs") == 40
