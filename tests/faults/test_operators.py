"""Operator actions on jobs, with Procrastinate's tools and with clerk's: scenarios 15 and 16."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from clerk.pipeline import engine
from tests.faults.pipeline import ROOT, Pipeline, until
from tests.reconcile.repair_helpers import repair_all


def _shell(pipeline: Pipeline, *command: str) -> None:
    """Procrastinate's shell, as an operator would use it."""
    environment = {**os.environ, "DATABASE_URL": pipeline.url, "FAULTS_FOLDER": str(pipeline.folder)}
    shell = [sys.executable, "-m", "procrastinate", "--app=tests.faults.worker_app.app", "shell", *command]
    result = subprocess.run(shell, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def _cancel(pipeline: Pipeline, job: int, *, abort: bool = False, delete: bool = False) -> None:
    """The statement of `job_manager.cancel_job_by_id`."""
    cancel = "select procrastinate_cancel_job_v1(%s, %s, %s)"
    assert pipeline.scalar(cancel, job, abort, delete) == job


def test_manual_retry_during_the_stage(pipeline: Pipeline) -> None:
    """Scenario 15. The unit is no longer counted as failed, and counted when it succeeds."""
    retried, slow = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", retried, "permanent", "ok")
    pipeline.plan_item("ocr", slow, "wait:slow")
    run = pipeline.start_run(first_phase=2)
    pipeline.worker(concurrency=2)
    until(lambda: pipeline.counters("ocr") == (2, 0, 1), "the failure")

    _shell(pipeline, "retry", str(pipeline.job_id("ocr", retried)))
    until(lambda: pipeline.counters("ocr") == (2, 1, 0), "the success")
    pipeline.open_gate("slow")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.ledger("ocr", retried)[:2] == ("processed", None)
    assert pipeline.scalar("select count(*) from pipeline_runs") == 1
    pipeline.check_invariants()


def test_phase_waits_for_a_reopened_unit(pipeline: Pipeline) -> None:
    """Scenario 15. All other units have ended."""
    first, last = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", first, "permanent", "wait:again")
    pipeline.plan_item("ocr", last, "wait:last")
    run = pipeline.start_run(first_phase=2)
    pipeline.worker(concurrency=2)
    until(lambda: pipeline.counters("ocr") == (2, 0, 1), "the failure")
    _shell(pipeline, "retry", str(pipeline.job_id("ocr", first)))
    until(lambda: pipeline.steps("wait:again"), "another attempt")
    pipeline.open_gate("last")
    until(lambda: pipeline.counters("ocr") == (2, 1, 0), "the end of the other unit")
    assert pipeline.scalar("select not coordinator_enqueued from sites")
    pipeline.open_gate("again")
    assert pipeline.wait_for_end(run) == "succeeded"
    pipeline.check_invariants()


@pytest.mark.parametrize("moment", ["coordinator claimed", "next phase", "run ended"])
def test_manual_retry_after_the_stage(pipeline: Pipeline, moment: str) -> None:
    """Scenario 15. A late unit: when it succeeds, the counters are corrected and the site is published again."""
    retried, other = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", retried, "permanent", "wait:late")
    if moment == "coordinator claimed":
        pipeline.plan_item("coordinate", 2, "wait:go")
    elif moment == "next phase":
        pipeline.set_plan(compilation="wait:go")
    run = pipeline.start_run(first_phase=2)
    pipeline.worker(concurrency=4)
    if moment == "run ended":
        assert pipeline.wait_for_end(run) == "partial"
    else:
        until(lambda: pipeline.steps("wait:go"), moment)

    _shell(pipeline, "retry", str(pipeline.job_id("ocr", retried)))
    until(lambda: pipeline.steps("wait:late"), "the late attempt")
    assert pipeline.counters("ocr") == (2, 1, 1)
    pipeline.open_gate("late")
    until(lambda: pipeline.counters("ocr") == (2, 2, 0), "the corrected counters")
    pipeline.open_gate("go")
    assert pipeline.wait_for_end(run) in ("succeeded", "partial")

    def published() -> bool:
        pipeline.clear_schedule("clerk.refresh")
        is_clean = "select bool_and(not dirty and current_stage = 'completed') from sites"
        return bool(pipeline.steps("done", stage="extraction", item=retried)) and bool(pipeline.scalar(is_clean))

    until(published, "compilation and deployment of the late document")
    assert len(pipeline.steps("done", stage="extraction", item=other)) == 1
    assert len(pipeline.steps("done", stage="ocr", item=other)) == 1
    assert pipeline.scalar("select outcome from sites") == "succeeded"
    deploys = len(pipeline.steps("done", stage="deploy"))
    assert deploys == (1 if moment == "coordinator claimed" else 2)
    pipeline.check_invariants()


def test_late_unit_that_fails_again_changes_nothing(pipeline: Pipeline) -> None:
    """Scenario 15."""
    hopeless, _ = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", hopeless, "permanent")
    run = pipeline.start_run(first_phase=2)
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "partial"
    job = pipeline.job_id("ocr", hopeless)
    _shell(pipeline, "retry", str(job))
    until(lambda: len(pipeline.steps(job=job)) == 2 and pipeline.job_status(job) == "failed", "the second failure")
    assert pipeline.counters("ocr") == (2, 1, 1)
    assert pipeline.scalar("select not dirty from sites")
    assert pipeline.scalar("select count(*) from pipeline_runs") == 1
    pipeline.check_invariants()


def test_clerk_retry_during_and_after_the_stage(pipeline: Pipeline) -> None:
    """Scenario 15 with clerk's retry: in place, and then in a run of only those documents."""
    early, late, good, slow = pipeline.add_site(documents=4)
    pipeline.plan_item("ocr", early, "permanent")
    pipeline.plan_item("ocr", late, "permanent")
    pipeline.plan_item("ocr", slow, "wait:slow")
    run = pipeline.start_run(first_phase=2)
    pipeline.worker(concurrency=2)
    until(lambda: pipeline.counters("ocr") == (4, 1, 2), "two failures")

    pipeline.plan_item("ocr", early, "ok")
    assert engine.retry_failed(pipeline.connection, "anytown").units == 2
    until(lambda: pipeline.counters("ocr") == (4, 2, 1), "the success of one of them")
    pipeline.open_gate("slow")
    assert pipeline.wait_for_end(run) == "partial"

    pipeline.plan_item("ocr", late, "ok")
    result = engine.retry_failed(pipeline.connection, "anytown")
    assert (result.stage, result.units) == ("ocr", 1)
    assert result.run_id is not None
    assert pipeline.wait_for_end(result.run_id) == "succeeded"
    assert pipeline.counters("ocr") == (1, 1, 0)
    assert pipeline.counters("extraction") == (1, 1, 0)
    assert len(pipeline.steps("done", stage="ocr", item=good)) == 1
    assert len(pipeline.steps("done", stage="deploy")) == 2
    pipeline.check_invariants()


def test_jobs_are_cancelled_aborted_and_deleted_while_they_wait_and_run(pipeline: Pipeline) -> None:
    """Scenario 16. Each unit fails with its reason, and the phase does not wait for it."""
    documents = pipeline.add_site(documents=7)
    cancellable, unresponsive, deleted, cancelled, cancelled_by_delete, removed, good = documents
    pipeline.plan_item("ocr", cancellable, "wait_or_stop:never")
    pipeline.plan_item("ocr", unresponsive, "wait:unresponsive")
    pipeline.plan_item("ocr", deleted, "wait:deleted")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker("ocr", concurrency=3)
    until(lambda: len(pipeline.steps()) == 3, "three running jobs")
    deleted_job = pipeline.job_id("ocr", deleted)

    delete = "delete from procrastinate_jobs where id = %s"
    _cancel(pipeline, pipeline.job_id("ocr", cancelled))
    _cancel(pipeline, pipeline.job_id("ocr", cancelled_by_delete), delete=True)
    pipeline.connection.execute(delete, [pipeline.job_id("ocr", removed)])
    assert pipeline.counters("ocr") == (7, 0, 3)
    pipeline.connection.execute(delete, [deleted_job])
    assert pipeline.counters("ocr") == (7, 0, 4)
    pipeline.open_gate("deleted")
    until(lambda: pipeline.ignored_results("fenced") == [(deleted_job, 0)], "the result of the deleted job")
    _cancel(pipeline, pipeline.job_id("ocr", cancellable), abort=True)
    _cancel(pipeline, pipeline.job_id("ocr", unresponsive), abort=True)
    until(lambda: pipeline.job_status(pipeline.job_id("ocr", cancellable)) == "aborted", "the abort")
    pipeline.open_gate("unresponsive")  # it ignores the abort request and succeeds
    pipeline.worker("coordinator", "compilation", "extraction", "deploy")

    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.ledger("ocr", cancellable)[:2] == ("failed_terminal", "JobAborted")
    assert pipeline.ledger("ocr", unresponsive)[:2] == ("processed", None)
    assert pipeline.ledger("ocr", deleted)[:2] == ("failed_terminal", "JobDeleted")
    assert pipeline.ledger("ocr", cancelled)[:2] == ("failed_terminal", "JobCancelled")
    assert pipeline.ledger("ocr", cancelled_by_delete)[:2] == ("failed_terminal", "JobDeleted")
    assert pipeline.ledger("ocr", removed)[:2] == ("failed_terminal", "JobDeleted")
    assert pipeline.ledger("ocr", good)[:2] == ("processed", None)
    assert worker.is_alive()
    # The next run processes units that failed because of operator actions.
    pipeline.set_plan(**{f"ocr:{document}": "ok" for document in documents})
    assert pipeline.wait_for_end(pipeline.start_run(first_phase=2)) == "succeeded"
    assert pipeline.counters("ocr") == (5, 5, 0)
    pipeline.check_invariants()


def test_deleting_ended_jobs_and_the_last_open_job(pipeline: Pipeline) -> None:
    """Scenario 16. Deleting ended jobs changes nothing; deleting the last open one ends the phase."""
    succeeded, failed, last = pipeline.add_site()
    pipeline.plan_item("ocr", failed, "permanent")
    pipeline.plan_item("ocr", last, "wait:never")
    run = pipeline.start_run(first_phase=2)
    pipeline.worker(concurrency=2)
    until(lambda: pipeline.counters("ocr") == (3, 1, 1), "two ended")
    until(lambda: pipeline.job_status(pipeline.job_id("ocr", last)) == "doing", "the last one started")
    for item in (succeeded, failed):
        pipeline.connection.execute("delete from procrastinate_jobs where id = %s", [pipeline.job_id("ocr", item)])
    assert pipeline.counters("ocr") == (3, 1, 1)
    pipeline.connection.execute("delete from procrastinate_jobs where id = %s", [pipeline.job_id("ocr", last)])
    assert pipeline.wait_for_end(run) == "partial"
    pipeline.open_gate("never")
    until(lambda: pipeline.ignored_results("fenced"), "the rejected result")
    assert pipeline.counters("ocr") == (3, 1, 2)
    pipeline.check_invariants()


def test_coordinators_and_site_level_jobs_are_cancelled_and_deleted(pipeline: Pipeline) -> None:
    """Scenario 16. A missing coordinator is deferred again; a missing compilation or deploy job fails its run."""
    pipeline.add_site("deleted", documents=1)
    pipeline.add_site("cancelled", documents=1)
    pipeline.add_site("compiled", documents=1)
    runs = {site: pipeline.start_run(site, first_phase=2) for site in ("deleted", "cancelled")}
    runs["compiled"] = pipeline.start_run("compiled", first_phase=3)
    compilation = "select id from procrastinate_jobs where queue_name = 'compilation'"
    _cancel(pipeline, pipeline.scalar(compilation))
    pipeline.worker("ocr")
    coordinators = "select id, args ->> 'subdomain' from procrastinate_jobs where queue_name = 'coordinator'"
    until(lambda: len(pipeline.rows(coordinators)) == 3, "three coordinators")
    for job, site in pipeline.rows(coordinators):
        if site != "compiled":
            _cancel(pipeline, job, delete=site == "deleted")
    assert len(repair_all(pipeline.connection)) == 2
    assert repair_all(pipeline.connection) == []

    pipeline.worker("coordinator", "compilation", "extraction", "deploy")
    assert pipeline.wait_for_end(runs["deleted"]) == "succeeded"
    assert pipeline.wait_for_end(runs["cancelled"]) == "succeeded"
    assert pipeline.wait_for_end(runs["compiled"]) == "failed"
    assert pipeline.rows("select max(deferred_count) from pipeline_transitions where phase = 2") == [(2,)]
    pipeline.check_invariants()


def test_worker_that_deletes_jobs(pipeline: Pipeline) -> None:
    """Scenario 16. --delete-jobs is ignored for the pipeline's jobs."""
    good, bad, flaky = pipeline.add_site()
    pipeline.plan_item("ocr", bad, "permanent")
    pipeline.plan_item("ocr", flaky, "transient", "ok")
    run = pipeline.start_run()
    pipeline.worker(options=("--delete-jobs=always",))
    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.ledger("ocr", good) == ("processed", None, 1)
    assert pipeline.ledger("ocr", bad) == ("failed_terminal", "PdfEncrypted", 1)
    assert pipeline.ledger("ocr", flaky) == ("processed", None, 2)
    pipeline.check_invariants()


def test_run_is_cancelled_while_its_units_finish(pipeline: Pipeline) -> None:
    """Scenario 16. Running jobs are asked to stop, waiting jobs are cancelled, and later results are stale."""
    documents = pipeline.add_site(documents=60)
    pipeline.plan_item("ocr", documents[0], "wait_or_stop:never")
    pipeline.plan_item("ocr", documents[1], "wait:unresponsive")
    run = pipeline.start_run(first_phase=2)
    for _ in range(2):
        pipeline.worker(concurrency=4)
    until(lambda: pipeline.counters("ocr")[1] > 5, "some units")
    assert engine.cancel_run(pipeline.connection, "anytown") == run
    assert pipeline.outcome(run) == "cancelled"
    total, completed, failed = pipeline.counters("ocr")
    assert completed + failed == total == 60
    pipeline.open_gate("unresponsive")
    unresponsive = pipeline.job_id("ocr", documents[1])
    until(lambda: pipeline.job_status(unresponsive) == "succeeded", "the end of the unresponsive job")
    assert pipeline.counters("ocr") == (total, completed, failed)
    assert pipeline.ledger("ocr", documents[1])[:2] == ("failed_terminal", "RunCancelled")
    pipeline.check_invariants()

    pipeline.plan_item("ocr", documents[0], "ok")
    again = pipeline.start_run(first_phase=2)
    assert pipeline.wait_for_end(again) == "succeeded"
    assert pipeline.counters("ocr") == (failed, failed, 0)
    pipeline.check_invariants()
