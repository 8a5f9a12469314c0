"""Scenario 14: a worker is suspended, its job is rescued, and the worker continues, in every order."""

from __future__ import annotations

from tests.faults.pipeline import Pipeline, Worker, until


def _freeze_during_job(pipeline: Pipeline, *attempts: str) -> tuple[int, Worker]:
    """A document whose first attempt is in a frozen worker and was rescued. Later attempts follow `attempts`."""
    document, _ = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", document, "wait:thawed", *attempts)
    pipeline.start_run(first_phase=2)
    zombie = pipeline.worker("ocr")
    until(lambda: pipeline.steps("wait:thawed", item=document), "the first attempt")
    zombie.freeze()
    pipeline.expire_leases(pipeline.job_id("ocr", document))
    assert pipeline.rescue() == 1
    return document, zombie


def _thaw(pipeline: Pipeline, document: int, zombie: Worker) -> None:
    """It finishes its job, its result is rejected, and it continues to run."""
    pipeline.open_gate("thawed")
    zombie.thaw()
    job = pipeline.job_id("ocr", document)
    until(lambda: pipeline.ignored_results("fenced") == [(job, 0)], "the fenced result")
    assert pipeline.rows("select status, stage, content_item_id from ignored_results") == [
        ("succeeded", "ocr", document)
    ]
    assert zombie.is_alive()


def _assert_runs_more_jobs(pipeline: Pipeline, zombie: Worker) -> None:
    (new,) = pipeline.add_site("elsewhere", documents=1)
    pipeline.start_run("elsewhere", first_phase=2)
    until(lambda: pipeline.steps("done", item=new, stage="ocr", pid=zombie.pid), "another job in the thawed worker")


def test_next_attempt_waits(pipeline: Pipeline) -> None:
    document, zombie = _freeze_during_job(pipeline, "ok")
    # So that the zombie does not start it, as during the delay between attempts.
    pipeline.connection.execute("update procrastinate_jobs set scheduled_at = now() + interval '1 day'")

    _thaw(pipeline, document, zombie)
    assert pipeline.job_status(pipeline.job_id("ocr", document)) == "todo"
    assert pipeline.ledger("ocr", document)[0] == "failed_retryable"

    pipeline.clear_schedule("clerk.ocr")
    pipeline.worker("compilation", "extraction", "deploy", "coordinator")
    assert pipeline.wait_for_end(1) == "succeeded"
    assert pipeline.steps("done", item=document, attempt=1, pid=zombie.pid)
    assert pipeline.counters("ocr") == (2, 2, 0)
    _assert_runs_more_jobs(pipeline, zombie)
    assert pipeline.wait_for_end(2) == "succeeded"
    pipeline.check_invariants()


def test_next_attempt_is_running(pipeline: Pipeline) -> None:
    document, zombie = _freeze_during_job(pipeline, "wait:successor")
    pipeline.worker()
    until(lambda: pipeline.steps("wait:successor", item=document), "the successor")

    _thaw(pipeline, document, zombie)
    assert pipeline.job_status(pipeline.job_id("ocr", document)) == "doing"
    assert pipeline.ledger("ocr", document)[0] == "in_progress"
    _assert_runs_more_jobs(pipeline, zombie)

    pipeline.open_gate("successor")
    assert pipeline.wait_for_end(1) == "succeeded"
    assert pipeline.ledger("ocr", document) == ("processed", None, 2)
    assert pipeline.wait_for_end(2) == "succeeded"
    pipeline.check_invariants()


def test_next_attempt_has_failed(pipeline: Pipeline) -> None:
    """The zombie's success does not change the failed unit."""
    document, zombie = _freeze_during_job(pipeline, "permanent")
    successor = pipeline.worker()
    assert pipeline.wait_for_end(1) == "partial"
    successor.stop()  # so that only the zombie can run more jobs

    _thaw(pipeline, document, zombie)
    assert pipeline.job_status(pipeline.job_id("ocr", document)) == "failed"
    assert pipeline.ledger("ocr", document) == ("failed_terminal", "PdfEncrypted", 2)
    assert pipeline.counters("ocr") == (2, 1, 1)
    _assert_runs_more_jobs(pipeline, zombie)
    pipeline.worker()
    assert pipeline.wait_for_end(2) == "succeeded"
    pipeline.check_invariants()


def test_next_attempt_has_succeeded(pipeline: Pipeline) -> None:
    document, zombie = _freeze_during_job(pipeline, "ok")
    successor = pipeline.worker()
    assert pipeline.wait_for_end(1) == "succeeded"
    successor.stop()

    _thaw(pipeline, document, zombie)
    assert pipeline.counters("ocr") == (2, 2, 0)
    assert pipeline.scalar("select deferred_count from pipeline_transitions where phase = 2") == 1
    _assert_runs_more_jobs(pipeline, zombie)
    pipeline.worker()
    assert pipeline.wait_for_end(2) == "succeeded"
    pipeline.check_invariants()


def test_failure_of_a_zombie_changes_nothing(pipeline: Pipeline) -> None:
    """Otherwise its retry would requeue the running job, and its failure would end it."""
    document, failing = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", document, "wait:thawed,transient", "wait:successor")
    pipeline.plan_item("ocr", failing, "wait:thawed,permanent", "wait:successor")
    run = pipeline.start_run(first_phase=2)
    zombie = pipeline.worker("ocr", concurrency=2)
    until(lambda: len(pipeline.steps()) == 2, "both running")
    zombie.freeze()
    jobs = [pipeline.job_id("ocr", item) for item in (document, failing)]
    pipeline.expire_leases(*jobs)
    assert pipeline.rescue() == 2
    pipeline.worker(concurrency=2)
    until(lambda: len(pipeline.steps("wait:successor")) == 2, "both successors")

    pipeline.open_gate("thawed")
    zombie.thaw()
    until(lambda: len(pipeline.ignored_results("fenced")) == 2, "both fenced")
    assert sorted(pipeline.rows("select job_id, attempt, status from ignored_results")) == [
        (jobs[0], 0, "todo"),
        (jobs[1], 0, "failed"),
    ]
    assert [pipeline.job_status(job) for job in jobs] == ["doing", "doing"]
    pipeline.open_gate("successor")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert zombie.is_alive()
    pipeline.check_invariants()


def test_rescued_job_returns_to_the_same_process(pipeline: Pipeline) -> None:
    """Holder and job are the same: only the attempt distinguishes the old result from the new."""
    document, _ = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", document, "wait:first", "wait:second")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker(concurrency=3)
    until(lambda: pipeline.steps("wait:first"), "the first attempt")
    worker.freeze()
    job = pipeline.job_id("ocr", document)
    pipeline.expire_leases(job)
    assert pipeline.rescue() == 1
    worker.thaw()
    until(lambda: pipeline.steps("wait:second", pid=worker.pid), "the second attempt in the same process")

    pipeline.open_gate("first")
    until(lambda: pipeline.ignored_results("fenced") == [(job, 0)], "the first attempt fenced")
    assert pipeline.job_status(job) == "doing"
    pipeline.open_gate("second")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.ledger("ocr", document) == ("processed", None, 2)
    pipeline.check_invariants()


def test_frozen_coordinator(pipeline: Pipeline) -> None:
    """Frozen before it advanced the phase; the next attempt advanced it; thawed, it finds the phase ended."""
    pipeline.add_site(documents=2)
    pipeline.plan_item("coordinate", 2, "wait:thawed", "ok")
    run = pipeline.start_run(first_phase=2)
    zombie = pipeline.worker("ocr", "coordinator")
    (frozen,) = until(lambda: pipeline.steps("wait:thawed", stage="coordinate"), "the coordinator")
    zombie.freeze()
    pipeline.expire_leases(frozen.job)
    assert pipeline.rescue() == 1
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"

    pipeline.open_gate("thawed")
    zombie.thaw()
    until(lambda: pipeline.ignored_results("fenced") == [(frozen.job, 0)], "the coordinator fenced")
    assert pipeline.steps("stale", job=frozen.job, pid=zombie.pid)
    assert zombie.is_alive()
    pipeline.check_invariants()


def test_worker_frozen_until_its_registration_was_deleted(pipeline: Pipeline) -> None:
    """Its next fetch violates a foreign key: it registers again and continues."""
    document, _ = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", document, "wait:thawed")
    run = pipeline.start_run(first_phase=2)
    zombie = pipeline.worker()
    until(lambda: pipeline.steps("wait:thawed"), "a running job")
    zombie.freeze()
    pipeline.connection.execute("delete from procrastinate_workers")
    pipeline.open_gate("thawed")
    zombie.thaw()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert {step.pid for step in pipeline.steps()} == {zombie.pid}
    assert pipeline.scalar("select pid from worker_status where queues @> '{ocr}'") == str(zombie.pid), (
        "it has registered again"
    )
    assert zombie.stop() == 0
    pipeline.check_invariants()
