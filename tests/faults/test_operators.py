"""What people do to jobs with Procrastinate's own tools and with clerk's: scenarios 15 and 16."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from clerk.pipeline import engine
from tests.faults.pipeline import ROOT, Pipeline, until
from tests.reconcile.repair_helpers import heal


def _shell(pipeline: Pipeline, *command: str) -> None:
    """Procrastinate's shell, as an operator would use it."""
    environment = {**os.environ, "DATABASE_URL": pipeline.url, "FAULTS_FOLDER": str(pipeline.folder)}
    shell = [sys.executable, "-m", "procrastinate", "--app=tests.faults.worker_app.app", "shell", *command]
    result = subprocess.run(shell, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def _cancel(pipeline: Pipeline, job: int, *, abort: bool = False, delete: bool = False) -> None:
    """What `job_manager.cancel_job_by_id` sends."""
    cancel = "select procrastinate_cancel_job_v1(%s, %s, %s)"
    assert pipeline.one(cancel, job, abort, delete) == job


def test_retry_by_hand_during_the_stage(pipeline: Pipeline) -> None:
    """Scenario 15. The unit is uncounted, and counted again."""
    healed, slow = pipeline.site(documents=2)
    pipeline.item("ocr", healed, "permanent", "ok")
    pipeline.item("ocr", slow, "wait:slow")
    run = pipeline.start(first_phase=2)
    pipeline.worker(concurrency=2)
    until(lambda: pipeline.counters("ocr") == (2, 0, 1), "the failure")

    _shell(pipeline, "retry", str(pipeline.job("ocr", healed)))
    until(lambda: pipeline.counters("ocr") == (2, 1, 0), "the success")
    pipeline.open("slow")
    assert pipeline.until_ended(run) == "succeeded"
    assert pipeline.ledger("ocr", healed)[:2] == ("processed", None)
    assert pipeline.one("select count(*) from pipeline_runs") == 1
    pipeline.check()


def test_phase_waits_for_a_member_that_was_opened_again(pipeline: Pipeline) -> None:
    """Scenario 15. All others are in: the phase must wait for the one that was opened again."""
    first, last = pipeline.site(documents=2)
    pipeline.item("ocr", first, "permanent", "wait:again")
    pipeline.item("ocr", last, "wait:last")
    run = pipeline.start(first_phase=2)
    pipeline.worker(concurrency=2)
    until(lambda: pipeline.counters("ocr") == (2, 0, 1), "the failure")
    _shell(pipeline, "retry", str(pipeline.job("ocr", first)))
    until(lambda: pipeline.said("wait:again"), "another attempt")
    pipeline.open("last")
    until(lambda: pipeline.counters("ocr") == (2, 1, 0), "the other one done")
    assert pipeline.one("select not coordinator_enqueued from sites")
    pipeline.open("again")
    assert pipeline.until_ended(run) == "succeeded"
    pipeline.check()


@pytest.mark.parametrize("moment", ["coordinator claimed", "next phase", "run over"])
def test_retry_by_hand_after_the_stage(pipeline: Pipeline, moment: str) -> None:
    """Scenario 15. A late unit: the books are put right when it succeeds, and it is published without more ado."""
    healed, other = pipeline.site(documents=2)
    pipeline.item("ocr", healed, "permanent", "wait:late")
    if moment == "coordinator claimed":
        pipeline.item("coordinate", 2, "wait:go")
    elif moment == "next phase":
        pipeline.will(compilation="wait:go")
    run = pipeline.start(first_phase=2)
    pipeline.worker(concurrency=4)
    if moment == "run over":
        assert pipeline.until_ended(run) == "partial"
    else:
        until(lambda: pipeline.said("wait:go"), moment)

    _shell(pipeline, "retry", str(pipeline.job("ocr", healed)))
    until(lambda: pipeline.said("wait:late"), "the late attempt")
    assert pipeline.counters("ocr") == (2, 1, 1)
    pipeline.open("late")
    until(lambda: pipeline.counters("ocr") == (2, 2, 0), "the books put right")
    pipeline.open("go")
    assert pipeline.until_ended(run) in ("succeeded", "partial")

    def published() -> bool:
        pipeline.hurry("clerk.refresh")
        settled = "select bool_and(not dirty and current_stage = 'completed') from sites"
        return bool(pipeline.said("done", stage="extraction", about=healed)) and bool(pipeline.one(settled))

    until(published, "the healed document in a fresh compilation and deploy")
    assert len(pipeline.said("done", stage="extraction", about=other)) == 1
    assert len(pipeline.said("done", stage="ocr", about=other)) == 1
    assert pipeline.one("select outcome from sites") == "succeeded"
    deploys = len(pipeline.said("done", stage="deploy"))
    assert deploys == (1 if moment == "coordinator claimed" else 2)
    pipeline.check()


def test_late_unit_that_fails_again_changes_nothing(pipeline: Pipeline) -> None:
    """Scenario 15."""
    hopeless, _ = pipeline.site(documents=2)
    pipeline.item("ocr", hopeless, "permanent")
    run = pipeline.start(first_phase=2)
    pipeline.worker()
    assert pipeline.until_ended(run) == "partial"
    job = pipeline.job("ocr", hopeless)
    _shell(pipeline, "retry", str(job))
    until(lambda: len(pipeline.said(job=job)) == 2 and pipeline.status(job) == "failed", "the second failure")
    assert pipeline.counters("ocr") == (2, 1, 1)
    assert pipeline.one("select not dirty from sites")
    assert pipeline.one("select count(*) from pipeline_runs") == 1
    pipeline.check()


def test_clerk_retry_during_and_after_the_stage(pipeline: Pipeline) -> None:
    """Scenario 15 by clerk's own move: in place, and then in a run of just those documents."""
    early, late, good, slow = pipeline.site(documents=4)
    pipeline.item("ocr", early, "permanent")
    pipeline.item("ocr", late, "permanent")
    pipeline.item("ocr", slow, "wait:slow")
    run = pipeline.start(first_phase=2)
    pipeline.worker(concurrency=2)
    until(lambda: pipeline.counters("ocr") == (4, 1, 2), "two failures")

    pipeline.item("ocr", early, "ok")
    assert engine.retry_failed(pipeline.connection, "anytown").units == 2
    until(lambda: pipeline.counters("ocr") == (4, 2, 1), "one of them healed")
    pipeline.open("slow")
    assert pipeline.until_ended(run) == "partial"

    pipeline.item("ocr", late, "ok")
    retried = engine.retry_failed(pipeline.connection, "anytown")
    assert (retried.stage, retried.units) == ("ocr", 1)
    assert retried.run_id is not None
    assert pipeline.until_ended(retried.run_id) == "succeeded"
    assert pipeline.counters("ocr") == (1, 1, 0)
    assert pipeline.counters("extraction") == (1, 1, 0)
    assert len(pipeline.said("done", stage="ocr", about=good)) == 1
    assert len(pipeline.said("done", stage="deploy")) == 2
    pipeline.check()


def test_jobs_are_cancelled_aborted_and_deleted_while_they_wait_and_run(pipeline: Pipeline) -> None:
    """Scenario 16. Each is a failed unit with its reason; nobody waits for it."""
    documents = pipeline.site(documents=7)
    heeding, deaf, deleted, cancelled, cancelled_by_delete, removed, good = documents
    pipeline.item("ocr", heeding, "heed:never")
    pipeline.item("ocr", deaf, "wait:deaf")
    pipeline.item("ocr", deleted, "wait:deleted")
    run = pipeline.start(first_phase=2)
    worker = pipeline.worker("ocr", concurrency=3)
    until(lambda: len(pipeline.said()) == 3, "three at work")
    deleted_job = pipeline.job("ocr", deleted)

    delete = "delete from procrastinate_jobs where id = %s"
    _cancel(pipeline, pipeline.job("ocr", cancelled))
    _cancel(pipeline, pipeline.job("ocr", cancelled_by_delete), delete=True)
    pipeline.connection.execute(delete, [pipeline.job("ocr", removed)])
    assert pipeline.counters("ocr") == (7, 0, 3)
    pipeline.connection.execute(delete, [deleted_job])
    assert pipeline.counters("ocr") == (7, 0, 4)
    pipeline.open("deleted")
    until(lambda: pipeline.ignored("fenced") == [(deleted_job, 0)], "the result of the deleted job")
    _cancel(pipeline, pipeline.job("ocr", heeding), abort=True)
    _cancel(pipeline, pipeline.job("ocr", deaf), abort=True)
    until(lambda: pipeline.status(pipeline.job("ocr", heeding)) == "aborted", "the abort")
    pipeline.open("deaf")  # does not look, and so succeeds all the same
    pipeline.worker("coordinator", "compilation", "extraction", "deploy")

    assert pipeline.until_ended(run) == "partial"
    assert pipeline.ledger("ocr", heeding)[:2] == ("failed_terminal", "JobAborted")
    assert pipeline.ledger("ocr", deaf)[:2] == ("processed", None)
    assert pipeline.ledger("ocr", deleted)[:2] == ("failed_terminal", "JobDeleted")
    assert pipeline.ledger("ocr", cancelled)[:2] == ("failed_terminal", "JobCancelled")
    assert pipeline.ledger("ocr", cancelled_by_delete)[:2] == ("failed_terminal", "JobDeleted")
    assert pipeline.ledger("ocr", removed)[:2] == ("failed_terminal", "JobDeleted")
    assert pipeline.ledger("ocr", good)[:2] == ("processed", None)
    assert worker.lives()
    # What failed for no fault of its own comes back with the next run.
    pipeline.will(**{f"ocr:{document}": "ok" for document in documents})
    assert pipeline.until_ended(pipeline.start(first_phase=2)) == "succeeded"
    assert pipeline.counters("ocr") == (5, 5, 0)
    pipeline.check()


def test_finished_jobs_are_deleted_and_so_is_the_last_open_one(pipeline: Pipeline) -> None:
    """Scenario 16. Deleting what has ended says nothing; deleting the last open one ends the phase."""
    succeeded, failed, last = pipeline.site()
    pipeline.item("ocr", failed, "permanent")
    pipeline.item("ocr", last, "wait:never")
    run = pipeline.start(first_phase=2)
    pipeline.worker(concurrency=2)
    until(lambda: pipeline.counters("ocr") == (3, 1, 1), "two ended")
    for item in (succeeded, failed):
        pipeline.connection.execute("delete from procrastinate_jobs where id = %s", [pipeline.job("ocr", item)])
    assert pipeline.counters("ocr") == (3, 1, 1)
    pipeline.connection.execute("delete from procrastinate_jobs where id = %s", [pipeline.job("ocr", last)])
    assert pipeline.until_ended(run) == "partial"
    pipeline.open("never")
    until(lambda: pipeline.ignored("fenced"), "its own result")
    assert pipeline.counters("ocr") == (3, 1, 2)
    pipeline.check()


def test_coordinators_and_site_level_jobs_are_cancelled_and_deleted(pipeline: Pipeline) -> None:
    """Scenario 16. A lost coordinator is deferred again; a lost compilation or deploy fails its run."""
    pipeline.site("deleted", documents=1)
    pipeline.site("cancelled", documents=1)
    pipeline.site("compiled", documents=1)
    runs = {site: pipeline.start(site, first_phase=2) for site in ("deleted", "cancelled")}
    runs["compiled"] = pipeline.start("compiled", first_phase=3)
    compilation = "select id from procrastinate_jobs where queue_name = 'compilation'"
    _cancel(pipeline, pipeline.one(compilation))
    pipeline.worker("ocr")
    coordinators = "select id, args ->> 'subdomain' from procrastinate_jobs where queue_name = 'coordinator'"
    until(lambda: len(pipeline.all(coordinators)) == 3, "three coordinators")
    for job, site in pipeline.all(coordinators):
        if site != "compiled":
            _cancel(pipeline, job, delete=site == "deleted")
    assert len(heal(pipeline.connection)) == 2
    assert heal(pipeline.connection) == []

    pipeline.worker("coordinator", "compilation", "extraction", "deploy")
    assert pipeline.until_ended(runs["deleted"]) == "succeeded"
    assert pipeline.until_ended(runs["cancelled"]) == "succeeded"
    assert pipeline.until_ended(runs["compiled"]) == "failed"
    assert pipeline.all("select max(deferred_count) from pipeline_transitions where phase = 2") == [(2,)]
    pipeline.check()


def test_worker_that_deletes_jobs(pipeline: Pipeline) -> None:
    """Scenario 16. With --delete-jobs success and failure look alike: pipeline jobs stay, and count."""
    good, bad, shaky = pipeline.site()
    pipeline.item("ocr", bad, "permanent")
    pipeline.item("ocr", shaky, "transient", "ok")
    run = pipeline.start()
    pipeline.worker(options=("--delete-jobs=always",))
    assert pipeline.until_ended(run) == "partial"
    assert pipeline.ledger("ocr", good) == ("processed", None, 1)
    assert pipeline.ledger("ocr", bad) == ("failed_terminal", "PdfEncrypted", 1)
    assert pipeline.ledger("ocr", shaky) == ("processed", None, 2)
    pipeline.check()


def test_run_is_cancelled_while_its_members_finish(pipeline: Pipeline) -> None:
    """Scenario 16. What runs is asked to stop, what waits is cancelled, and what comes in later is stale."""
    documents = pipeline.site(documents=60)
    pipeline.item("ocr", documents[0], "heed:never")
    pipeline.item("ocr", documents[1], "wait:deaf")
    run = pipeline.start(first_phase=2)
    for _ in range(2):
        pipeline.worker(concurrency=4)
    until(lambda: pipeline.counters("ocr")[1] > 5, "some members")
    assert engine.cancel_run(pipeline.connection, "anytown") == run
    assert pipeline.outcome(run) == "cancelled"
    total, completed, failed = pipeline.counters("ocr")
    assert completed + failed == total == 60
    pipeline.open("deaf")
    deaf = pipeline.job("ocr", documents[1])
    until(lambda: pipeline.status(deaf) == "succeeded", "the deaf one")
    assert pipeline.counters("ocr") == (total, completed, failed)
    assert pipeline.ledger("ocr", documents[1])[:2] == ("failed_terminal", "RunCancelled")
    pipeline.check()

    pipeline.item("ocr", documents[0], "ok")
    again = pipeline.start(first_phase=2)
    assert pipeline.until_ended(again) == "succeeded"
    assert pipeline.counters("ocr") == (failed, failed, 0)
    pipeline.check()
