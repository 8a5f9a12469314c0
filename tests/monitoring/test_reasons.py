"""Every reason to wait, produced through the engine, with its code, sentence and remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from clerk.errors import PdfBroken
from clerk.pipeline import engine
from clerk.pipeline.engine import QUEUES
from tests.engine.helpers import Worker, add_site, expire, finish_phase, one, run_with, start, unit
from tests.monitoring.conftest import Why
from tests.monitoring.workers import die, in_phase, register
from tests.reconcile.repair_helpers import repair_all

NewWorker = Callable[..., Worker]


@pytest.fixture
def worker(connection: psycopg.Connection, new_worker: NewWorker) -> Worker:
    """A worker for all queues."""
    return register(new_worker("0123456789ab clerk 77 machine-a"), *QUEUES)


@pytest.fixture
def items(connection: psycopg.Connection) -> list[int]:
    return add_site(connection, documents=3)


# --- not running -------------------------------------------------------------------------------------------------


def test_never_run_and_due(items: list[int], worker: Worker, why: Why) -> None:
    explanation = why()
    assert explanation.because == "never_run"
    assert explanation.sentence == "it has never run; the first run is due, and starts within a minute"
    assert explanation.remedy == "start a run now: clerk update town"


def test_never_run_and_no_worker_to_start_it(items: list[int], why: Why) -> None:
    explanation = why()
    assert explanation.sentence == (
        "it has never run; the first run is due, but no worker processes queue coordinator: no worker is alive"
    )
    assert explanation.remedy == "start workers: clerk worker, or everything: clerk up"


def test_never_run_and_paused(connection: psycopg.Connection, items: list[int], worker: Worker, why: Why) -> None:
    engine.pause_site(connection, "town", "ann: asked by the town")
    explanation = why()
    assert re.fullmatch(
        r"it has never run; the site is paused by ann: asked by the town since \d\d:\d\d \(.*\),"
        r" and the first run starts when it is resumed",
        explanation.sentence,
    )
    assert explanation.remedy == "clerk resume town"


def test_succeeded_and_when_the_next_is_due(items: list[int], worker: Worker, why: Why) -> None:
    run_with(worker)
    explanation = why()
    assert explanation.because == "succeeded"
    assert re.fullmatch(r"the run finished at .*: .*; the next run is due at .* \(in 22 h\)", explanation.sentence)
    assert explanation.remedy is None


def test_the_next_run_is_due(connection: psycopg.Connection, items: list[int], worker: Worker, why: Why) -> None:
    run_with(worker)
    connection.execute("update sites set updated_at = now() - interval '2 days'")
    assert why().sentence.endswith("; the next run is due, and starts within a minute")


def test_unchanged(items: list[int], worker: Worker, why: Why) -> None:
    run_with(worker)
    run_with(worker)
    explanation = why()
    assert explanation.because == "unchanged"
    assert ": no new documents; the next run" in explanation.sentence


def test_no_documents(connection: psycopg.Connection, worker: Worker, why: Why) -> None:
    add_site(connection, documents=0)
    run_with(worker)
    explanation = why()
    assert explanation.because == "no_documents"
    assert ": the source has no documents; the next run" in explanation.sentence
    assert not any("skipped" in line for line in explanation.evidence)


def test_no_documents_because_all_were_skipped(connection: psycopg.Connection, worker: Worker, why: Why) -> None:
    add_site(connection, documents=0)
    run_with(worker)
    connection.execute("update pipeline_runs set skipped = 1, skipped_examples = array['a.pdf has no date']")
    assert "1 entry of the source was skipped: a.pdf has no date" in why().evidence
    remedy = "see what was skipped, and what to do: clerk site skipped town"
    assert why().remedy == remedy
    connection.execute("update pipeline_runs set skipped = 1234, skipped_examples = array['a', 'b', 'c', 'd']")
    assert "1,234 entries of the source were skipped: a; b; c; and 1,231 more" in why().evidence


def test_finished_with_failed_documents(
    connection: psycopg.Connection, items: list[int], worker: Worker, why: Why
) -> None:
    run_with(worker, "ocr", items=tuple(items[:2]))
    explanation = why()
    assert explanation.because == "partial"
    assert re.match(
        r"the run finished with 2 failed documents at .*:"
        r" Council 2000-01-03 \(PdfBroken\), Council 2000-01-02 \(PdfBroken\);",
        explanation.sentence,
    )
    assert explanation.remedy == PdfBroken.remedy
    assert any("ocr Council 2000-01-02: failed, PdfBroken" in line for line in explanation.evidence)
    connection.execute(
        "update content_item_pipeline_state set error_code = 'PdfEmpty' where content_item_id = %s", [items[0]]
    )
    assert why().remedy == "see the remedy of each error: clerk failures --site town", "a retry helps neither"
    connection.execute(
        "update content_item_pipeline_state set error_code = 'PdfTimeout' where content_item_id = %s", [items[0]]
    )
    assert (why().remedy or "").endswith("; then retry: clerk retry town")


def test_three_of_many_failures_are_named(connection: psycopg.Connection, worker: Worker, why: Why) -> None:
    items = add_site(connection, documents=70)
    run_with(worker, "ocr", items=tuple(items[:65]))
    assert "finished with 65 failed documents" in why().sentence
    assert " and 62 more;" in why().sentence


def test_failed_because_every_document_failed(items: list[int], worker: Worker, why: Why) -> None:
    run_with(worker, "ocr")
    explanation = why()
    assert explanation.because == "failed"
    assert re.match(r"the run failed at .*: .* \(PdfBroken\);", explanation.sentence)


def test_compilation_failed_so_the_published_archive_stays(items: list[int], worker: Worker, why: Why) -> None:
    run_with(worker, "compilation")
    assert re.match(
        r"the run failed at .*: compilation failed; the published archive stays as it was \(PdfBroken\);",
        why().sentence,
    )


def test_a_step_after_publication_failed(
    connection: psycopg.Connection, items: list[int], worker: Worker, why: Why
) -> None:
    run = in_phase(connection, 4)
    connection.execute(
        "insert into publications (subdomain, run_id, content_hash, pages, deployed_at)"
        " values ('town', %s, repeat('a', 64), 3, now())",
        [run],
    )
    job = worker.take("deploy")
    worker.retry(job, datetime.now(UTC) + timedelta(minutes=5), "PluginRaised", "no mail server")
    explanation = why()
    assert explanation.because == "retry"
    assert re.search(
        r"it is retried at \d\d:\d\d after PluginRaised; the archive is published, but a step after publication fails$",
        explanation.sentence,
    )
    connection.execute("update procrastinate_jobs set scheduled_at = null where status = 'todo'")
    worker.finish(worker.take("deploy"), "failed", "PluginRaised", "no mail server")
    worker.coordinate(worker.take("coordinator"))
    assert (
        "the archive is published, but a step after publication failed (PluginRaised: no mail server)" in why().sentence
    )


def test_cancelled_by_an_operator(connection: psycopg.Connection, items: list[int], worker: Worker, why: Why) -> None:
    start(connection)
    engine.cancel_run(connection, "town", "cancelled by ann: the source is being moved")
    explanation = why()
    assert explanation.because == "cancelled"
    assert re.match(
        r"the run ended at .*: cancelled by ann: the source is being moved; the next run is due", explanation.sentence
    )


# --- running -----------------------------------------------------------------------------------------------------


def test_one_unit_runs_one_waits_and_one_is_retried(
    connection: psycopg.Connection, items: list[int], worker: Worker, new_worker: NewWorker, why: Why
) -> None:
    in_phase(connection, 2)
    first = worker.take("ocr")
    engine.report_progress(worker.connection, first.id, first.attempts, 17, 40)
    connection.execute("update job_claims set claimed_at = now() - interval '2 minutes' where job_id = %s", [first.id])
    soon = datetime.now(UTC) + timedelta(minutes=1)
    worker.retry(worker.take("ocr"), soon, "ReaderCrashed", "it is gone")
    explanation = why()
    assert explanation.because == "running"
    assert explanation.sentence == (
        f"the run waits for the OCR of 3 of 3 documents; 1 is running (worker {worker.number} on machine-a,"
        f" page 17 of 40, 2 min),"
        f" 1 waits in queue ocr, next in line (processed by worker {worker.number} on machine-a),"
        f" 1 is retried at {soon.astimezone():%H:%M} after ReaderCrashed"
    )
    assert explanation.remedy is None
    assert any("attempt 1 of 3, last error ReaderCrashed: it is gone" in line for line in explanation.evidence)


def test_behind_others_in_the_queue(
    connection: psycopg.Connection, items: list[int], worker: Worker, new_worker: NewWorker, why: Why
) -> None:
    add_site(connection, "metropolis", documents=7)
    in_phase(connection, 1)
    engine.start_run(connection, "metropolis", first_phase=2)
    engine.start_run(connection, "town", supersede=True, first_phase=2)
    register(new_worker("another"), "ocr")
    assert why().sentence == (
        "the run waits for the OCR of 3 of 3 documents; 3 wait in queue ocr for their turn: 2 sites take turns,"
        " and about 1 job goes first (processed by 2 workers)"
    )
    # Two jobs of each turn of metropolis go first.
    connection.execute("update sites set weight = 2 where subdomain = 'metropolis'")
    connection.execute("update procrastinate_jobs set turn = turn + 1000000 where args ->> 'subdomain' = 'town'")
    assert "2 sites take turns, and about 3 jobs go first" in why().sentence
    connection.execute("update sites set weight = 5 where subdomain = 'town'")
    assert "2 sites take turns, this one with weight 5, and about 1 job goes first" in why().sentence


def test_behind_jobs_of_a_higher_priority_of_the_same_site(
    connection: psycopg.Connection, items: list[int], worker: Worker, why: Why
) -> None:
    """With one site there are no turns."""
    in_phase(connection, 2)
    connection.execute(
        "insert into procrastinate_jobs (queue_name, task_name, priority) values ('ocr', 'x', 1), ('ocr', 'x', 1)"
    )
    assert "3 wait in queue ocr behind 2 others" in why().sentence


def test_no_worker_processes_the_queue(connection: psycopg.Connection, items: list[int], why: Why) -> None:
    in_phase(connection, 2)
    explanation = why()
    assert explanation.because == "no_worker"
    assert explanation.sentence == (
        "no worker processes queue ocr: no worker is alive; the run waits for the OCR of 3 of 3 documents"
    )
    assert explanation.remedy == "start workers: clerk worker, or everything: clerk up"


def test_the_last_worker_died(connection: psycopg.Connection, items: list[int], worker: Worker, why: Why) -> None:
    in_phase(connection, 2)
    die(connection, worker)
    assert why().sentence == (
        f"no worker processes queue ocr: no worker is alive (last heartbeat: worker {worker.number} on machine-a,"
        " 5 min ago); the run waits for the OCR of 3 of 3 documents"
    )


def test_the_live_worker_processes_other_queues(
    connection: psycopg.Connection, items: list[int], new_worker: NewWorker, why: Why
) -> None:
    in_phase(connection, 2)
    register(new_worker("one"), "fetch", "deploy")
    assert why().sentence == (
        "no worker processes queue ocr: the live worker processes only deploy and fetch;"
        " the run waits for the OCR of 3 of 3 documents"
    )
    assert why().remedy == "start a worker: clerk worker --queues ocr"


def test_a_worker_without_registered_queues(
    connection: psycopg.Connection, items: list[int], new_worker: NewWorker, why: Why
) -> None:
    in_phase(connection, 2)
    new_worker("older")
    assert "no worker is known to process queue ocr: 1 worker has not registered" in why().sentence


def test_the_queue_is_paused(connection: psycopg.Connection, items: list[int], worker: Worker, why: Why) -> None:
    in_phase(connection, 2)
    engine.pause_queue(connection, "ocr", "bob: new disks")
    explanation = why()
    assert explanation.because == "queue_paused"
    assert re.fullmatch(
        r"queue ocr is paused by bob: new disks since .*; the run waits for the OCR of 3 of 3 documents",
        explanation.sentence,
    )
    assert explanation.remedy == "clerk resume --queue ocr"


def test_the_site_is_paused_and_running_jobs_continue(
    connection: psycopg.Connection, items: list[int], worker: Worker, why: Why
) -> None:
    in_phase(connection, 2)
    worker.take("ocr")
    engine.pause_site(connection, "town", "bob")
    explanation = why()
    assert explanation.because == "site_paused"
    assert re.fullmatch(
        r"the site is paused by bob since .*; the run waits for the OCR of 3 of 3 documents; 1 is running \(.*\)",
        explanation.sentence,
    )
    assert explanation.remedy == "clerk resume town"


def test_on_hold_although_nothing_is_paused(
    connection: psycopg.Connection, items: list[int], worker: Worker, why: Why
) -> None:
    in_phase(connection, 2)
    connection.execute("update procrastinate_jobs set scheduled_at = clerk_paused_until() where status = 'todo'")
    explanation = why()
    assert explanation.because == "wrongly_paused"
    assert (
        "3 are on hold although neither site nor queue is paused: reconciliation releases them within 15 minutes"
        in explanation.sentence
    ), "the threshold does not apply to this repair"
    assert explanation.remedy == "repair it now: clerk reconcile-pipeline --site town --threshold-hours 0"


def test_an_expired_lease(connection: psycopg.Connection, items: list[int], worker: Worker, why: Why) -> None:
    in_phase(connection, 2)
    job = worker.take("ocr")
    expire(connection, job)
    explanation = why()
    assert explanation.because == "lease_expired"
    assert f"1 was claimed by worker {worker.number} on machine-a, whose lease expired " in explanation.sentence
    die(connection, worker)
    assert (
        ": another worker gets it within a minute, but no worker processes queue coordinator: no worker is alive"
        in why().sentence
    )


def test_a_unit_without_a_job(connection: psycopg.Connection, items: list[int], worker: Worker, why: Why) -> None:
    in_phase(connection, 2)
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute("delete from procrastinate_jobs where id = %s", [unit(connection, items[0])["job_id"]])
    explanation = why()
    assert "1 has no job: reconciliation defers a new one" in explanation.sentence
    assert explanation.remedy == "repair it now: clerk reconcile-pipeline --site town --threshold-hours 0"


def test_compilation_and_extraction_side_by_side(
    connection: psycopg.Connection, items: list[int], worker: Worker, why: Why
) -> None:
    in_phase(connection, 3)
    worker.take("compilation")
    assert re.fullmatch(
        r"the run waits for the compilation and the extraction of 3 of 3 documents; the compilation is running \(.*\),"
        r" 3 documents wait in queue extraction, next in line \(.*\)",
        why().sentence,
    )


def test_the_fetch_waits_for_a_host(connection: psycopg.Connection, items: list[int], worker: Worker, why: Why) -> None:
    connection.execute('update sites set extra = \'{"url": "https://www.town.example/minutes"}\'')
    in_phase(connection, 1)
    worker.take("fetch")
    connection.execute("select clerk_back_off_host('www.town.example', '5 minutes', '429 Too Many Requests')")
    connection.execute("select clerk_back_off_host('www.elsewhere.example', '5 minutes', '503')")
    explanation = why()
    assert re.fullmatch(
        r"the run waits for the fetch; it is running \(.*\); host www\.town\.example accepts no requests"
        r" until \d\d:\d\d \(429 Too Many Requests\)",
        explanation.sentence,
    )
    connection.execute("update fetch_hosts set held_until = null, next_at = now() + interval '35 seconds'")
    assert "; host www.town.example is rate-limited, the next request is sent in 3" in why().sentence


# --- between the phases ------------------------------------------------------------------------------------------


@pytest.fixture
def coordinating(connection: psycopg.Connection, items: list[int], worker: Worker) -> Worker:
    """OCR has finished, and the coordinator waits."""
    in_phase(connection, 2)
    while job := worker.fetch("ocr"):
        worker.finish(job)
    return worker


def test_the_coordinator_waits(coordinating: Worker, why: Why) -> None:
    explanation = why()
    assert explanation.because == "coordinator_queued"
    assert re.fullmatch(
        r"OCR has finished; its coordinator waits in queue coordinator, next in line \(.*\)", explanation.sentence
    )


def test_no_worker_processes_queue_coordinator(connection: psycopg.Connection, coordinating: Worker, why: Why) -> None:
    die(connection, coordinating)
    explanation = why()
    assert explanation.because == "coordinator_no_worker"
    assert explanation.sentence.startswith(
        "OCR has finished; no worker processes queue coordinator: no worker is alive"
    )
    assert explanation.remedy == "start workers: clerk worker, or everything: clerk up"


def test_the_coordinator_runs(coordinating: Worker, why: Why) -> None:
    coordinating.take("coordinator")
    explanation = why()
    assert explanation.because == "coordinator_running"
    assert f"its coordinator is running (worker {coordinating.number} on machine-a, " in explanation.sentence


def test_the_coordinator_is_retried(coordinating: Worker, why: Why) -> None:
    job = coordinating.take("coordinator")
    soon = datetime.now(UTC) + timedelta(seconds=90)
    coordinating.retry(job, soon, "RuntimeError")
    explanation = why()
    assert explanation.because == "coordinator_retry"
    assert f"its coordinator failed 1 time and is retried at {soon.astimezone():%H:%M}" in explanation.sentence
    assert "(RuntimeError: " in explanation.sentence


def test_the_lease_of_the_coordinator_expired(connection: psycopg.Connection, coordinating: Worker, why: Why) -> None:
    expire(connection, coordinating.take("coordinator"))
    explanation = why()
    assert explanation.because == "coordinator_lease_expired"
    assert "its coordinator was claimed by worker" in explanation.sentence


def test_the_coordinator_has_no_job(connection: psycopg.Connection, coordinating: Worker, why: Why) -> None:
    connection.execute("delete from procrastinate_jobs where queue_name = 'coordinator'")
    explanation = why()
    assert explanation.because == "coordinator_no_job"
    assert "OCR has finished; its coordinator has no job: reconciliation defers a new one" in explanation.sentence
    repair_all(connection)
    assert why().because == "coordinator_queued"
    assert any(line.startswith("reconciled ") for line in why().evidence)


def test_the_coordinator_was_never_deferred(connection: psycopg.Connection, coordinating: Worker, why: Why) -> None:
    connection.execute("delete from pipeline_transitions where advanced_at is null")
    assert why().because == "coordinator_no_job"
    assert "its coordinator was never deferred" in why().sentence


def test_wrong_counters(connection: psycopg.Connection, coordinating: Worker, why: Why) -> None:
    connection.execute("delete from pipeline_transitions where advanced_at is null")
    connection.execute("update sites set ocr_completed = 1, coordinator_enqueued = false")
    explanation = why()
    assert explanation.because == "counter_mismatch"
    assert "the counters show 1 of 3 in ocr, but no unit is open" in explanation.sentence


# --- after the run -----------------------------------------------------------------------------------------------


def test_a_late_retry_and_the_run_that_includes_it(
    connection: psycopg.Connection, items: list[int], worker: Worker, why: Why
) -> None:
    run_with(worker, "ocr", items=(items[0],))
    job = unit(connection, items[0])["job_id"]
    connection.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job])
    explanation = why()
    assert explanation.because == "late"
    assert re.match(
        r"the run finished with 1 failed document at .*; the OCR of 1 of 3 documents is repeated after the run:"
        r" 1 waits",
        explanation.sentence,
    )
    worker.finish(worker.take("ocr"))
    explanation = why()
    assert explanation.because == "dirty"
    assert re.fullmatch(
        r"documents recovered after their stage had finished, so the archive has to be rebuilt; the run starts at .*",
        explanation.sentence,
    )
    connection.execute("delete from procrastinate_jobs where task_name = 'clerk.refresh'")
    explanation = why()
    assert "the job that starts this run is missing: reconciliation" in explanation.sentence
    assert explanation.remedy == "repair it now: clerk reconcile-pipeline --site town --threshold-hours 0"


# --- broken triggers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "alter table procrastinate_jobs disable trigger clerk_record_change",
            "trigger clerk_record_change is disabled",
        ),
        ("drop trigger clerk_fence on procrastinate_jobs", "trigger clerk_fence is missing"),
    ],
)
def test_a_missing_or_disabled_trigger(
    connection: psycopg.Connection, items: list[int], worker: Worker, why: Why, statement: str, problem: str
) -> None:
    in_phase(connection, 2)
    connection.execute(statement.encode())
    explanation = why()
    assert explanation.because == "triggers"
    assert explanation.sentence == f"{problem}, so finished jobs are not recorded and no run advances"


def test_a_trigger_that_should_not_be_enabled_is_no_reason(
    connection: psycopg.Connection, items: list[int], worker: Worker, why: Why
) -> None:
    in_phase(connection, 2)
    before = why()
    connection.execute("alter table procrastinate_jobs enable trigger procrastinate_trigger_status_events_update_v1")
    assert why().sentence == before.sentence


def test_the_state_is_read_in_one_snapshot(connection: psycopg.Connection, items: list[int], worker: Worker) -> None:
    """A change that is committed between two queries is not visible."""
    from clerk.db.connection import read_only_snapshot
    from clerk.monitoring.site_state import read_site_state

    run = in_phase(connection, 2)
    with read_only_snapshot(connection):
        assert one(connection, "select count(*) from open_units") == 3
        finish_phase(worker)
        state = read_site_state(connection, "town")
    assert state is not None
    assert state.run.run_id == run
    assert state.run.current_stage == "ocr"
    assert sum(group.count for group in state.groups) == 3
