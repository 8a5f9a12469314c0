"""Every change of a job's status, and what it does to ledger, counters, coordinator, claim and ignored results.

The table of sql/README.md, as tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from clerk.pipeline import engine
from tests.engine.helpers import (
    Connection,
    Job,
    Worker,
    add_site,
    broken_invariants,
    coordinators,
    counters,
    expire,
    ignored,
    job_status,
    one,
    rows,
    site,
    start,
    unit,
)

DELETED = "deleted"
ENDED = ("succeeded", "failed", "aborted", "cancelled")


def bring_to(worker: Worker, job_id: int, status: str) -> Job:
    """Bring a waiting job to a status, as workers and operators do; returns the job as its worker fetched it."""
    if status == "cancelled":
        one(worker.connection, "select procrastinate_cancel_job_v1(%s, false, false)", [job_id])
    elif status != "todo":
        worker.connection.execute(
            "update procrastinate_jobs set status = 'doing', worker_id = %s where id = %s", [worker.number, job_id]
        )
        if status != "doing":
            assert worker.finish(read_job(worker.connection, job_id), status)
    assert job_status(worker.connection, job_id) == status
    return read_job(worker.connection, job_id)


def read_job(connection: Connection, job_id: int) -> Job:
    return Job(
        *rows(connection, "select id, attempts, queue_name, args from procrastinate_jobs where id = %s", [job_id])[0]
    )


def change_status(worker: Worker, job: Job, old: str, new: str) -> None:
    """Change the status of a job as in production: by the holder, Procrastinate's functions, or an UPDATE."""
    connection = worker.connection
    if new == DELETED:
        connection.execute("delete from procrastinate_jobs where id = %s", [job.id])
    elif new == "doing":
        bring_to(worker, job.id, "doing")
    elif old == "doing" and new == "todo":
        assert worker.retry(job)
    elif old == "doing":
        assert worker.finish(job, new)
    elif new == "cancelled":
        one(connection, "select procrastinate_cancel_job_v1(%s, false, false)", [job.id])
    elif old == "todo":
        connection.execute("select procrastinate_finish_job_v1(%s, %s, false)", [job.id, new])
    elif old == "failed":
        connection.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job.id])
    else:
        connection.execute("update procrastinate_jobs set status = 'todo' where id = %s", [job.id])
    assert job_status(connection, job.id) == (None if new == DELETED else new)


@dataclass(frozen=True)
class Effect:
    """The effect of a change of status on a unit, and on its stage of two units."""

    ledger: str
    completed: int = 0
    failed: int = 0
    error_code: str | None = None
    claim: str | None = "none"
    """`settled_as` of the claim; "none" if there is no claim."""


FAILED = "failed_terminal"
IN_CURRENT_PHASE = {
    ("todo", "doing"): Effect("in_progress", claim=None),
    ("doing", "succeeded"): Effect("processed", completed=1, claim="succeeded"),
    ("doing", "failed"): Effect(FAILED, failed=1, error_code="JobFailed", claim="failed"),
    ("doing", "aborted"): Effect(FAILED, failed=1, error_code="JobAborted", claim="aborted"),
    ("doing", "todo"): Effect("failed_retryable", error_code="JobFailed", claim="todo"),
    ("todo", "succeeded"): Effect("processed", completed=1),
    ("todo", "failed"): Effect(FAILED, failed=1, error_code="JobFailed"),
    ("todo", "cancelled"): Effect(FAILED, failed=1, error_code="JobCancelled"),
    ("failed", "todo"): Effect("pending", error_code="JobFailed", claim="failed"),
    ("aborted", "todo"): Effect("pending", error_code="JobAborted", claim="aborted"),
    ("cancelled", "todo"): Effect("pending", error_code="JobCancelled"),
    ("succeeded", "todo"): Effect("pending", claim="succeeded"),
    ("todo", DELETED): Effect(FAILED, failed=1, error_code="JobDeleted"),
    ("doing", DELETED): Effect(FAILED, failed=1, error_code="JobDeleted"),
    ("succeeded", DELETED): Effect("processed", completed=1),
    ("failed", DELETED): Effect(FAILED, failed=1, error_code="JobFailed"),
    ("aborted", DELETED): Effect(FAILED, failed=1, error_code="JobAborted"),
    ("cancelled", DELETED): Effect(FAILED, failed=1, error_code="JobCancelled"),
}


def claim_of(connection: Connection, job_id: int) -> str | None:
    found = rows(connection, "select settled_as from job_claims where job_id = %s", [job_id])
    return found[0][0] if found else "none"


@pytest.mark.parametrize(("old", "new"), IN_CURRENT_PHASE)
def test_unit_of_the_current_phase(connection: Connection, old: str, new: str) -> None:
    items = add_site(connection, documents=2)
    run = start(connection, phase=2)
    worker = Worker(connection)
    job = bring_to(worker, unit(connection, items[0])["job_id"], old)

    change_status(worker, job, old, new)

    effect = IN_CURRENT_PHASE[old, new]
    ledger = unit(connection, items[0])
    assert (ledger["status"], ledger["error_code"]) == (effect.ledger, effect.error_code)
    assert counters(connection, "ocr") == (2, effect.completed, effect.failed)
    assert claim_of(connection, job.id) == effect.claim
    assert coordinators(connection, run, 2) == 0, "the other document is still open"
    assert ignored(connection) == []
    assert broken_invariants(connection) == []


@pytest.mark.parametrize(
    ("old", "new"), [change_status for change_status in IN_CURRENT_PHASE if change_status[0] in ("todo", "doing")]
)
def test_last_unit_of_the_phase_defers_the_coordinator(connection: Connection, old: str, new: str) -> None:
    items = add_site(connection, documents=1)
    run = start(connection, phase=2)
    worker = Worker(connection)
    job = bring_to(worker, unit(connection, items[0])["job_id"], old)

    change_status(worker, job, old, new)

    ended = new in ENDED or new == DELETED
    assert coordinators(connection, run, 2) == int(ended)
    assert site(connection)["coordinator_enqueued"] is ended
    assert rows(
        connection, "select phase, deferred_count from pipeline_transitions where run_id = %s and phase = 2", [run]
    ) == ([(2, 1)] if ended else [])
    assert broken_invariants(connection) == []


@pytest.mark.parametrize("advanced", [False, True], ids=["coordinator claimed", "next phase runs"])
@pytest.mark.parametrize("then", [*ENDED, DELETED])
@pytest.mark.parametrize("old", ENDED)
def test_unit_retried_by_hand_after_its_phase(connection: Connection, old: str, then: str, advanced: bool) -> None:
    """The counters change only if it succeeds, which also makes the site dirty."""
    items = add_site(connection, documents=2)
    run = start(connection, phase=2)
    worker = Worker(connection)
    bring_to(worker, unit(connection, items[1])["job_id"], "succeeded")
    job = bring_to(worker, unit(connection, items[0])["job_id"], old)
    if advanced:
        worker.coordinate(worker.take("coordinator"))
        assert site(connection)["phase"] == 3
    before, ledger_before = counters(connection, "ocr"), unit(connection, items[0])

    change_status(worker, job, old, "todo")
    assert counters(connection, "ocr") == before
    assert unit(connection, items[0])["status"] == ledger_before["status"]
    change_status(worker, read_job(connection, job.id), "todo", "doing")
    assert unit(connection, items[0])["status"] == ledger_before["status"]
    change_status(worker, read_job(connection, job.id), "doing", DELETED if then == "cancelled" else then)

    recovers = old != "succeeded" and then == "succeeded"
    assert counters(connection, "ocr") == ((2, 2, 0) if recovers else before)
    assert unit(connection, items[0])["status"] == ("processed" if recovers else ledger_before["status"])
    assert unit(connection, items[0])["reopened_at"] is None
    assert site(connection)["dirty"] is recovers
    assert one(connection, "select count(*) from procrastinate_jobs where task_name = 'clerk.refresh'") == int(recovers)
    assert coordinators(connection, run, 2) == 1
    # A processed unit is not reopened: the result of its second attempt is ignored, and recorded as such.
    assert ignored(connection) == (["stale"] if old == "succeeded" else [])
    assert broken_invariants(connection) == []


@pytest.mark.parametrize(
    ("old", "new"), [change_status for change_status in IN_CURRENT_PHASE if change_status != ("doing", "todo")]
)
def test_job_of_a_superseded_run_changes_nothing(connection: Connection, old: str, new: str) -> None:
    items = add_site(connection, documents=2)
    start(connection, phase=2)
    worker = Worker(connection)
    job_id = unit(connection, items[0])["job_id"]
    if old == "doing":
        bring_to(worker, job_id, "doing")
    start(connection, phase=2)  # supersedes the first run and takes over its documents
    assert unit(connection, items[0])["job_id"] != job_id
    if old not in ("doing", "cancelled"):
        # As for a job that was skipped because its row was locked when the new run started.
        connection.execute("update procrastinate_jobs set status = 'todo' where id = %s", [job_id])
        bring_to(worker, job_id, old)
    before, ledger_before = site(connection), rows(connection, "select * from content_item_pipeline_state order by id")
    seen = len(ignored(connection))

    change_status(worker, read_job(connection, job_id), old, new)

    assert site(connection) == before
    assert rows(connection, "select * from content_item_pipeline_state order by id") == ledger_before
    stale = new in ENDED or (new == DELETED and old in ("todo", "doing"))
    assert ignored(connection)[seen:] == (["stale"] if stale else [])
    assert broken_invariants(connection) == []


def test_retry_of_a_job_with_an_abort_request_fails_it(connection: Connection) -> None:
    add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    job = worker.take("ocr")
    one(connection, "select clerk_cancel_run('town')")

    assert worker.retry(job)

    assert job_status(connection, job.id) == "failed"
    assert ignored(connection) == ["stale"]
    assert broken_invariants(connection) == []


@pytest.mark.parametrize(("old", "new"), IN_CURRENT_PHASE)
def test_coordinator_has_a_claim_but_no_ledger_row(connection: Connection, old: str, new: str) -> None:
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    bring_to(worker, unit(connection, items[0])["job_id"], "succeeded")
    job_id = one(
        connection, "select id from procrastinate_jobs where task_name = 'clerk.coordinate' and status = 'todo'"
    )
    job = bring_to(worker, job_id, old)
    before, ledger_before = site(connection), rows(connection, "select * from content_item_pipeline_state order by id")

    change_status(worker, job, old, new)

    assert claim_of(connection, job_id) == IN_CURRENT_PHASE[old, new].claim
    assert site(connection) == before
    assert rows(connection, "select * from content_item_pipeline_state order by id") == ledger_before
    assert ignored(connection) == []
    assert broken_invariants(connection) == []


def test_error_of_a_coordinator_is_recorded(connection: Connection) -> None:
    items = add_site(connection, documents=1)
    run = start(connection, phase=2)
    worker = Worker(connection)
    bring_to(worker, unit(connection, items[0])["job_id"], "succeeded")
    errors = "select subdomain, run_id, phase, error_code, error_message, advanced_at is null from coordinator_errors"
    assert rows(connection, errors) == []
    assert worker.retry(worker.take("coordinator"), code="RuntimeError", message="no memory")
    assert rows(connection, errors) == [("town", run, 2, "RuntimeError", "no memory", True)]
    job = worker.take("coordinator")
    expire(connection, job)
    assert engine.rescue_job(connection, job.id) == "rescued"
    assert rows(connection, errors)[0][3] == "WorkerLost"
    worker.coordinate(worker.take("coordinator"))
    assert rows(connection, errors)[0][5] is False


GOOD_ARGUMENTS = {"subdomain": "town", "run_id": 1, "stage": "ocr", "content_item_id": 1}
_NOT_NUMBERS: list[Any] = [None, True, "x", "", [], {}, -1, 1.5, 1e30, 99999999999999999999, "1; drop", "1\n", "1"]
_NOT_STAGES: list[Any] = [None, 7, [], {}, "nap", "completed"]
_NOT_SITES: list[Any] = [None, 7, [], {}, "nowhere"]
BAD_ARGUMENTS: list[Any] = [
    *[None, True, 7, "text", [], [1, 2], [{"run_id": 1}], {}],
    *[GOOD_ARGUMENTS | {key: value} for key in ("run_id", "content_item_id") for value in _NOT_NUMBERS],
    *[GOOD_ARGUMENTS | {"stage": value} for value in _NOT_STAGES],
    *[GOOD_ARGUMENTS | {"subdomain": value} for value in _NOT_SITES],
    *[{key: GOOD_ARGUMENTS[key] for key in GOOD_ARGUMENTS if key != left_out} for left_out in GOOD_ARGUMENTS],
]


def test_bad_arguments_never_raise_and_change_nothing(connection: Connection) -> None:
    """A trigger that raises leaves the job `doing` under a live worker, where it is not rescued. One bad job at the
    head of a queue would block every fetch."""
    add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    connection.execute("update procrastinate_jobs set scheduled_at = now() + interval '1 day' where status = 'todo'")
    before, ledger_before = site(connection), rows(connection, "select * from content_item_pipeline_state order by id")

    for args in BAD_ARGUMENTS:
        for old, new in IN_CURRENT_PHASE:
            job_id = one(
                connection,
                "insert into procrastinate_jobs (queue_name, task_name, args) values ('odd', 'other', %s) returning id",
                [Jsonb(args)],
            )
            if old == "todo" and new == "doing":
                assert worker.take("odd").id == job_id, args
            else:
                change_status(worker, bring_to(worker, job_id, old), old, new)
            one(connection, "select count(*) from clerk_renew_leases(array[%s::bigint])", [job_id])
            one(connection, "select clerk_check_rejected_result(%s, 0, 'failed')", [job_id])
            connection.execute("delete from procrastinate_jobs where id = %s", [job_id])

    assert site(connection) == before
    assert rows(connection, "select * from content_item_pipeline_state order by id") == ledger_before
    assert one(connection, "select count(*) from clerk_remove_finished_jobs(now() + interval '1 day')") == 1
    assert broken_invariants(connection) == []


def test_job_of_a_deleted_site(connection: Connection) -> None:
    """It ends without an error."""
    items = add_site(connection, documents=2)
    run = start(connection, phase=2)
    worker = Worker(connection)
    job = bring_to(worker, unit(connection, items[0])["job_id"], "doing")
    connection.execute("delete from sites")

    assert worker.finish(job)
    assert one(connection, "select clerk_advance_phase('town', %s, 2)", [run]) == "stale"
    assert ignored(connection) == ["stale"]
    assert broken_invariants(connection) == []


def test_error_messages_are_cut_to_500_characters(connection: Connection) -> None:
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    worker = Worker(connection)
    job = worker.take("ocr")

    worker.finish(job, "failed", "PdfEncrypted", "é" * 600)

    ledger = unit(connection, items[0])
    assert (ledger["error_code"], ledger["error_message"]) == ("PdfEncrypted", "é" * 500)
    assert site(connection)["last_error_message"] == ("PdfEncrypted: " + "é" * 600)[:500]
    assert site(connection)["last_error_stage"] == "ocr"
    assert site(connection)["last_error_at"] is not None


def test_ledger_counts_attempts_and_keeps_the_last_error(connection: Connection) -> None:
    """Also if Procrastinate's own retry of a failed job counts the attempt twice."""
    items = add_site(connection, documents=2)
    start(connection, phase=2)
    worker = Worker(connection)
    job_id = unit(connection, items[0])["job_id"]
    job = bring_to(worker, job_id, "doing")
    assert unit(connection, items[0])["attempt_count"] == 1
    assert unit(connection, items[0])["last_attempt_at"] is not None

    worker.retry(job, code="Timeout", message="slow")
    ledger = unit(connection, items[0])
    assert (ledger["status"], ledger["error_code"], ledger["error_message"]) == ("failed_retryable", "Timeout", "slow")
    job = bring_to(worker, job_id, "doing")
    assert unit(connection, items[0])["attempt_count"] == 2
    worker.finish(job, "failed", "PdfBroken", "no trailer")
    connection.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job_id])
    job = bring_to(worker, job_id, "doing")
    assert unit(connection, items[0])["attempt_count"] == 3
    worker.finish(job)
    ledger = unit(connection, items[0])
    assert (ledger["status"], ledger["error_code"], ledger["error_message"]) == ("processed", None, None)
    assert ledger["processed_at"] is not None


def test_a_job_deleted_when_done_counts_as_failed(connection: Connection) -> None:
    """`--delete-jobs` of a foreign worker: success and failure cannot be distinguished."""
    items = add_site(connection, documents=1)
    run = start(connection, phase=2)
    worker = Worker(connection)
    job = worker.take("ocr")

    connection.execute("select procrastinate_finish_job_v1(%s, 'succeeded', true)", [job.id])

    assert unit(connection, items[0])["error_code"] == "JobDeleted"
    assert coordinators(connection, run, 2) == 1


@pytest.mark.parametrize("rejected_worker", ["zombie", "other process"])
def test_rejected_results_are_distinguished(
    connection: Connection, new_worker: Callable[[str], Worker], rejected_worker: str
) -> None:
    items = add_site(connection, documents=1)
    start(connection, phase=2)
    holder, other = new_worker("holder"), new_worker("other")
    job = holder.take("ocr")
    if rejected_worker == "other process":
        assert not other.finish(job), "another process"
        assert other.check_rejected(job, "succeeded") == "fenced"
        assert holder.finish(job)
    else:
        assert holder.finish(job)
        assert not holder.finish(job), "already finished"
        assert holder.check_rejected(job, "succeeded") == "mine"
        assert holder.check_rejected(job, "failed") == "fenced", "another result"
    assert unit(connection, items[0])["status"] == "processed"
    assert ignored(connection) == ["fenced"]
