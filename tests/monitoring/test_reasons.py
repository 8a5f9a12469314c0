"""Every way to wait, brought about through the engine, and the sentence that names it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from clerk.pipeline import engine
from clerk.pipeline.engine import QUEUES
from tests.engine.helpers import Worker, add_site, expire, finish_phase, one, run_with, start, unit
from tests.monitoring.conftest import Why
from tests.monitoring.workers import die, in_phase, register
from tests.reconcile.repair_helpers import heal

NewWorker = Callable[..., Worker]


@pytest.fixture
def hand(connection: psycopg.Connection, new_worker: NewWorker) -> Worker:
    """A worker for everything."""
    return register(new_worker("0123456789ab clerk 77 machine-a"), *QUEUES)


@pytest.fixture
def items(connection: psycopg.Connection) -> list[int]:
    return add_site(connection, documents=3)


# --- not running -------------------------------------------------------------------------------------------------


def test_never_run_and_due(items: list[int], hand: Worker, why: Why) -> None:
    answer = why()
    assert answer.because == "never_run"
    assert answer.sentence == "it has never run; the first run is due, and starts within a minute"
    assert answer.remedy == "start one now: clerk update town"


def test_never_run_and_nobody_to_start_it(items: list[int], why: Why) -> None:
    answer = why()
    assert answer.sentence == (
        "it has never run; the first run is due, but nothing reads queue coordinator: no worker alive"
    )
    assert answer.remedy == "start one: clerk worker --queues coordinator"


def test_never_run_and_paused(connection: psycopg.Connection, items: list[int], hand: Worker, why: Why) -> None:
    engine.pause_site(connection, "town", "ann: asked by the town")
    answer = why()
    assert re.fullmatch(
        r"it has never run; paused by ann: asked by the town since \d\d:\d\d \(.*\), and the first run starts when"
        r" it is resumed",
        answer.sentence,
    )
    assert answer.remedy == "clerk resume town"


def test_succeeded_and_when_the_next_is_due(items: list[int], hand: Worker, why: Why) -> None:
    run_with(hand)
    answer = why()
    assert answer.because == "succeeded"
    assert re.fullmatch(r"finished at .*: all done; the next run is due at .* \(in 22 h\)", answer.sentence)
    assert answer.remedy is None


def test_the_next_run_is_due(connection: psycopg.Connection, items: list[int], hand: Worker, why: Why) -> None:
    run_with(hand)
    connection.execute("update sites set updated_at = now() - interval '2 days'")
    assert why().sentence.endswith("; the next run is due, and starts within a minute")


def test_unchanged(items: list[int], hand: Worker, why: Why) -> None:
    run_with(hand)
    run_with(hand)
    answer = why()
    assert answer.because == "unchanged"
    assert ": no new documents; the next run" in answer.sentence


def test_no_documents(connection: psycopg.Connection, hand: Worker, why: Why) -> None:
    add_site(connection, documents=0)
    run_with(hand)
    answer = why()
    assert answer.because == "no_documents"
    assert ": the source has no documents; the next run" in answer.sentence
    assert not any("passed over" in line for line in answer.evidence)


def test_no_documents_since_all_were_passed_over(connection: psycopg.Connection, hand: Worker, why: Why) -> None:
    add_site(connection, documents=0)
    run_with(hand)
    connection.execute("update pipeline_runs set skipped = 1, skipped_examples = array['a.pdf has no date']")
    said = "1 entry of the source was passed over: a.pdf has no date"
    assert f": the source has no documents that can be used ({said}); the next run" in why().sentence
    assert said in why().evidence
    connection.execute("update pipeline_runs set skipped = 1234, skipped_examples = array['a', 'b', 'c', 'd']")
    assert "1,234 entries of the source were passed over: a; b; c; and 1,231 more" in why().evidence


def test_finished_with_failed_documents(items: list[int], hand: Worker, why: Why) -> None:
    run_with(hand, "ocr", items=tuple(items[:2]))
    answer = why()
    assert answer.because == "partial"
    assert re.match(
        r"finished with 2 failed documents at .*: Council 2000-01-03 \(PdfBroken\), Council 2000-01-02 \(PdfBroken\);",
        answer.sentence,
    )
    assert answer.remedy == "clerk failures --site town says what helps; where that is another try: clerk retry town"
    assert any("ocr Council 2000-01-02: failed, PdfBroken" in line for line in answer.evidence)


def test_more_failures_than_can_be_named_are_counted(connection: psycopg.Connection, hand: Worker, why: Why) -> None:
    items = add_site(connection, documents=70)
    run_with(hand, "ocr", items=tuple(items[:65]))
    assert "finished with 65 failed documents" in why().sentence
    assert " and 62 more;" in why().sentence


def test_failed_because_nothing_could_be_read(items: list[int], hand: Worker, why: Why) -> None:
    run_with(hand, "ocr")
    answer = why()
    assert answer.because == "failed"
    assert re.match(r"failed at .*: none of 3 documents could be read \(PdfBroken\);", answer.sentence)


def test_compilation_failed_so_the_published_copy_stays(items: list[int], hand: Worker, why: Why) -> None:
    run_with(hand, "compilation")
    assert re.match(
        r"failed at .*: compilation failed; the published archive stays as it was \(PdfBroken\);", why().sentence
    )


def test_what_is_done_after_deploying_failed(
    connection: psycopg.Connection, items: list[int], hand: Worker, why: Why
) -> None:
    run = in_phase(connection, 4)
    connection.execute(
        "insert into publications (subdomain, run_id, content_hash, pages, deployed_at)"
        " values ('town', %s, repeat('a', 64), 3, now())",
        [run],
    )
    job = hand.take("deploy")
    hand.retry(job, datetime.now(UTC) + timedelta(minutes=5), "PluginRaised", "no mail server")
    answer = why()
    assert answer.because == "retry"
    assert re.search(
        r"it is retried at \d\d:\d\d after PluginRaised; the archive is published, what is done after it fails$",
        answer.sentence,
    )
    connection.execute("update procrastinate_jobs set scheduled_at = null where status = 'todo'")
    hand.finish(hand.take("deploy"), "failed", "PluginRaised", "no mail server")
    hand.coordinate(hand.take("coordinator"))
    assert "the archive is published, but what is done after it failed (PluginRaised: no mail server)" in why().sentence


def test_cancelled_by_somebody(connection: psycopg.Connection, items: list[int], hand: Worker, why: Why) -> None:
    start(connection)
    engine.cancel_run(connection, "town", "cancelled by ann: the source is being moved")
    answer = why()
    assert answer.because == "cancelled"
    assert re.match(r"ended at .*: cancelled by ann: the source is being moved; the next run is due", answer.sentence)


# --- running -----------------------------------------------------------------------------------------------------


def test_running_normally_with_every_kind_of_wait(
    connection: psycopg.Connection, items: list[int], hand: Worker, new_worker: NewWorker, why: Why
) -> None:
    in_phase(connection, 2)
    first = hand.take("ocr")
    engine_hand = hand.connection
    engine.report_progress(engine_hand, first.id, first.attempts, 17, 40)
    connection.execute("update job_claims set claimed_at = now() - interval '2 minutes' where job_id = %s", [first.id])
    soon = datetime.now(UTC) + timedelta(minutes=1)
    hand.retry(hand.take("ocr"), soon, "ReaderCrashed", "it is gone")
    answer = why()
    assert answer.because == "running"
    assert answer.sentence == (
        f"waiting for 3 of 3 documents; 1 is being read (worker {hand.number} on machine-a, page 17 of 40, 2 min),"
        f" 1 waits in queue ocr, next in line (read by worker {hand.number} on machine-a),"
        f" 1 is retried at {soon.astimezone():%H:%M} after ReaderCrashed"
    )
    assert answer.remedy is None
    assert any("attempt 1 of 3, last error ReaderCrashed: it is gone" in line for line in answer.evidence)


def test_behind_others_in_the_queue(
    connection: psycopg.Connection, items: list[int], hand: Worker, new_worker: NewWorker, why: Why
) -> None:
    add_site(connection, "metropolis", documents=7)
    in_phase(connection, 1)
    engine.start_run(connection, "metropolis", first_phase=2)
    engine.start_run(connection, "town", supersede=True, first_phase=2)
    register(new_worker("another"), "ocr")
    assert why().sentence == ("waiting for 3 of 3 documents; 3 wait in queue ocr behind 7 others (read by 2 workers)")


def test_nothing_reads_the_queue(connection: psycopg.Connection, items: list[int], why: Why) -> None:
    in_phase(connection, 2)
    answer = why()
    assert answer.because == "nothing_reads"
    assert answer.sentence == "nothing reads queue ocr: no worker alive; waiting for 3 of 3 documents"
    assert answer.remedy == "start one: clerk worker --queues ocr"


def test_the_last_worker_died(connection: psycopg.Connection, items: list[int], hand: Worker, why: Why) -> None:
    in_phase(connection, 2)
    die(connection, hand)
    assert why().sentence == (
        f"nothing reads queue ocr: no worker alive (worker {hand.number} on machine-a was last heard of 5 min ago);"
        " waiting for 3 of 3 documents"
    )


def test_a_worker_alive_but_not_for_this_queue(
    connection: psycopg.Connection, items: list[int], new_worker: NewWorker, why: Why
) -> None:
    in_phase(connection, 2)
    register(new_worker("one"), "fetch", "deploy")
    assert why().sentence == (
        "nothing reads queue ocr: the worker alive reads deploy and fetch only; waiting for 3 of 3 documents"
    )


def test_a_worker_that_does_not_say_what_it_reads(
    connection: psycopg.Connection, items: list[int], new_worker: NewWorker, why: Why
) -> None:
    in_phase(connection, 2)
    new_worker("older")
    assert "nothing is known to read queue ocr: 1 worker of another version does not say" in why().sentence


def test_the_queue_is_paused(connection: psycopg.Connection, items: list[int], hand: Worker, why: Why) -> None:
    in_phase(connection, 2)
    engine.pause_queue(connection, "ocr", "bob: new disks")
    answer = why()
    assert answer.because == "queue_paused"
    assert re.fullmatch(
        r"queue ocr is paused by bob: new disks since .*; waiting for 3 of 3 documents", answer.sentence
    )
    assert answer.remedy == "clerk resume --queue ocr"


def test_the_site_is_paused_and_what_runs_goes_on(
    connection: psycopg.Connection, items: list[int], hand: Worker, why: Why
) -> None:
    in_phase(connection, 2)
    hand.take("ocr")
    engine.pause_site(connection, "town", "bob")
    answer = why()
    assert answer.because == "site_paused"
    assert re.fullmatch(
        r"paused by bob since .*; waiting for 3 of 3 documents; 1 is being read \(.*\)", answer.sentence
    )
    assert answer.remedy == "clerk resume town"


def test_held_back_though_nothing_is_paused(
    connection: psycopg.Connection, items: list[int], hand: Worker, why: Why
) -> None:
    in_phase(connection, 2)
    connection.execute("update procrastinate_jobs set scheduled_at = clerk_paused_until() where status = 'todo'")
    answer = why()
    assert answer.because == "held_back"
    assert "3 are held back though nothing is paused: reconciliation" in answer.sentence
    assert answer.remedy == "do it now: clerk reconcile-pipeline --site town --threshold-hours 0"


def test_a_lease_that_is_over(connection: psycopg.Connection, items: list[int], hand: Worker, why: Why) -> None:
    in_phase(connection, 2)
    job = hand.take("ocr")
    expire(connection, job)
    answer = why()
    assert answer.because == "lease_over"
    assert (
        f"1 was with worker {hand.number} on machine-a, whose lease is over for 1 s: it is given to another worker"
        " within a minute" in answer.sentence
    )
    die(connection, hand)
    assert "within a minute, but nothing reads queue coordinator: no worker alive" in why().sentence


def test_a_unit_without_a_job(connection: psycopg.Connection, items: list[int], hand: Worker, why: Why) -> None:
    in_phase(connection, 2)
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute("delete from procrastinate_jobs where id = %s", [unit(connection, items[0])["job_id"]])
    answer = why()
    assert "1 is without a job: reconciliation makes a new one" in answer.sentence
    assert answer.remedy == "do it now: clerk reconcile-pipeline --site town --threshold-hours 0"


def test_compilation_and_extraction_side_by_side(
    connection: psycopg.Connection, items: list[int], hand: Worker, why: Why
) -> None:
    in_phase(connection, 3)
    hand.take("compilation")
    assert re.fullmatch(
        r"waiting for the compilation and people and votes of 3 of 3 documents; the compilation is running \(.*\),"
        r" 3 documents wait in queue extraction, next in line \(.*\)",
        why().sentence,
    )


def test_the_fetch_waits_for_a_host(connection: psycopg.Connection, items: list[int], hand: Worker, why: Why) -> None:
    connection.execute('update sites set extra = \'{"url": "https://www.town.example/minutes"}\'')
    in_phase(connection, 1)
    hand.take("fetch")
    connection.execute("select clerk_back_off_host('www.town.example', '5 minutes', '429 Too Many Requests')")
    connection.execute("select clerk_back_off_host('www.elsewhere.example', '5 minutes', '503')")
    answer = why()
    assert re.fullmatch(
        r"waiting for the fetch; it is running \(.*\); host www\.town\.example asked to be left alone until \d\d:\d\d"
        r" \(429 Too Many Requests\)",
        answer.sentence,
    )
    connection.execute("update fetch_hosts set held_until = null, next_at = now() + interval '35 seconds'")
    assert "; host www.town.example is asked by many, the next turn comes in 35 s" in why().sentence


# --- between the phases ------------------------------------------------------------------------------------------


@pytest.fixture
def read(connection: psycopg.Connection, items: list[int], hand: Worker) -> Worker:
    """Everything is read, and the coordinator waits."""
    in_phase(connection, 2)
    while job := hand.fetch("ocr"):
        hand.finish(job)
    return hand


def test_the_coordinator_waits(read: Worker, why: Why) -> None:
    answer = why()
    assert answer.because == "coordinator_queued"
    assert re.fullmatch(
        r"reading is over; its coordinator waits in queue coordinator, next in line \(.*\)", answer.sentence
    )


def test_nobody_reads_the_coordinators_queue(connection: psycopg.Connection, read: Worker, why: Why) -> None:
    die(connection, read)
    answer = why()
    assert answer.because == "coordinator_nothing_reads"
    assert answer.sentence.startswith("reading is over; nothing reads queue coordinator: no worker alive")
    assert answer.remedy == "start one: clerk worker --queues coordinator"


def test_the_coordinator_runs(read: Worker, why: Why) -> None:
    read.take("coordinator")
    answer = why()
    assert answer.because == "coordinator_running"
    assert f"its coordinator is running (worker {read.number} on machine-a, " in answer.sentence


def test_the_coordinator_is_retried(read: Worker, why: Why) -> None:
    job = read.take("coordinator")
    soon = datetime.now(UTC) + timedelta(seconds=90)
    read.retry(job, soon, "RuntimeError")
    answer = why()
    assert answer.because == "coordinator_retry"
    assert f"its coordinator failed 1 time and is tried again at {soon.astimezone():%H:%M}" in answer.sentence
    assert "(RuntimeError: " in answer.sentence


def test_the_coordinators_lease_is_over(connection: psycopg.Connection, read: Worker, why: Why) -> None:
    expire(connection, read.take("coordinator"))
    answer = why()
    assert answer.because == "coordinator_lease_over"
    assert "its coordinator was with worker" in answer.sentence


def test_the_coordinator_is_lost(connection: psycopg.Connection, read: Worker, why: Why) -> None:
    connection.execute("delete from procrastinate_jobs where queue_name = 'coordinator'")
    answer = why()
    assert answer.because == "coordinator_no_job"
    assert "reading is over; its coordinator is lost: reconciliation defers it again" in (answer.sentence)
    heal(connection)
    assert why().because == "coordinator_queued"
    assert any(line.startswith("reconciled ") for line in why().evidence)


def test_the_coordinator_was_never_deferred(connection: psycopg.Connection, read: Worker, why: Why) -> None:
    connection.execute("delete from pipeline_transitions where advanced_at is null")
    assert why().because == "coordinator_no_job"
    assert "its coordinator was never deferred" in why().sentence


def test_counters_that_wait_for_nothing(connection: psycopg.Connection, read: Worker, why: Why) -> None:
    connection.execute("delete from pipeline_transitions where advanced_at is null")
    connection.execute("update sites set ocr_completed = 1, coordinator_enqueued = false")
    answer = why()
    assert answer.because == "miscounted"
    assert "its counters say 1 of 3 in ocr, but nothing of it is open" in answer.sentence


# --- after the run -----------------------------------------------------------------------------------------------


def test_late_documents_and_the_run_that_takes_them_in(
    connection: psycopg.Connection, items: list[int], hand: Worker, why: Why
) -> None:
    run_with(hand, "ocr", items=(items[0],))
    job = unit(connection, items[0])["job_id"]
    connection.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job])
    answer = why()
    assert answer.because == "late"
    assert re.match(
        r"finished with 1 failed document at .*; 1 of 3 documents tried again since: 1 waits in", answer.sentence
    )
    hand.finish(hand.take("ocr"))
    answer = why()
    assert answer.because == "dirty"
    assert re.fullmatch(
        r"documents were healed after their stage, and the archive is to be made anew with them; it starts at .*",
        answer.sentence,
    )
    connection.execute("delete from procrastinate_jobs where task_name = 'clerk.refresh'")
    answer = why()
    assert "the job for that is lost: reconciliation" in answer.sentence
    assert answer.remedy == "do it now: clerk reconcile-pipeline --site town --threshold-hours 0"


# --- nothing works -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            "alter table procrastinate_jobs disable trigger clerk_record_change",
            "trigger clerk_record_change is disabled",
        ),
        ("drop trigger clerk_fence on procrastinate_jobs", "trigger clerk_fence is missing"),
    ],
)
def test_triggers(
    connection: psycopg.Connection, items: list[int], hand: Worker, why: Why, how: str, said: str
) -> None:
    in_phase(connection, 2)
    connection.execute(how.encode())
    answer = why()
    assert answer.because == "triggers"
    assert answer.sentence == f"nothing moves: {said}, so the ends of jobs are not booked"


def test_one_moment_is_looked_at(connection: psycopg.Connection, items: list[int], hand: Worker) -> None:
    """All facts are from one snapshot: what is committed between two questions is not half seen."""
    from clerk.db.connection import read_only_snapshot
    from clerk.monitoring.site_state import read_site_state

    run = in_phase(connection, 2)
    with read_only_snapshot(connection):
        assert one(connection, "select count(*) from open_units") == 3
        finish_phase(hand)
        facts = read_site_state(connection, "town")
    assert facts is not None
    assert facts.run.run_id == run
    assert facts.run.current_stage == "ocr"
    assert sum(group.count for group in facts.groups) == 3
