"""Scenario 14: a worker is frozen, its job is rescued, and the worker is thawed, in every order."""

from __future__ import annotations

from tests.faults.pipeline import Pipeline, Worker, until


def _freeze_in_mid_job(pipeline: Pipeline, *attempts: str) -> tuple[int, Worker]:
    """A document whose first attempt is in a frozen worker, and is taken from it. The second does `attempts`."""
    document, _ = pipeline.site(documents=2)
    pipeline.item("ocr", document, "wait:thawed", *attempts)
    pipeline.start(first_phase=2)
    zombie = pipeline.worker("ocr")
    until(lambda: pipeline.said("wait:thawed", about=document), "the first attempt")
    zombie.freeze()
    pipeline.lapse(pipeline.job("ocr", document))
    assert pipeline.rescue() == 1
    return document, zombie


def _thaw(pipeline: Pipeline, document: int, zombie: Worker) -> None:
    """It finishes what it held, is told that it came too late, and lives on."""
    pipeline.open("thawed")
    zombie.thaw()
    job = pipeline.job("ocr", document)
    until(lambda: pipeline.ignored("fenced") == [(job, 0)], "the fenced result")
    assert pipeline.all("select status, stage, content_item_id from ignored_results") == [
        ("succeeded", "ocr", document)
    ]
    assert zombie.lives()


def _assert_does_more_work(pipeline: Pipeline, zombie: Worker) -> None:
    (new,) = pipeline.site("elsewhere", documents=1)
    pipeline.start("elsewhere", first_phase=2)
    until(lambda: pipeline.said("done", about=new, stage="ocr", pid=zombie.pid), "more work by the thawed worker")


def test_successor_waits(pipeline: Pipeline) -> None:
    document, zombie = _freeze_in_mid_job(pipeline, "ok")
    # Out of reach for the zombie itself, as after a pause between attempts.
    pipeline.connection.execute("update procrastinate_jobs set scheduled_at = now() + interval '1 day'")

    _thaw(pipeline, document, zombie)
    assert pipeline.status(pipeline.job("ocr", document)) == "todo"
    assert pipeline.ledger("ocr", document)[0] == "failed_retryable"

    pipeline.hurry("clerk.ocr")
    pipeline.worker("compilation", "extraction", "deploy", "coordinator")
    assert pipeline.until_ended(1) == "succeeded"
    assert pipeline.said("done", about=document, attempt=1, pid=zombie.pid)
    assert pipeline.counters("ocr") == (2, 2, 0)
    _assert_does_more_work(pipeline, zombie)
    assert pipeline.until_ended(2) == "succeeded"
    pipeline.check()


def test_successor_runs(pipeline: Pipeline) -> None:
    document, zombie = _freeze_in_mid_job(pipeline, "wait:successor")
    pipeline.worker()
    until(lambda: pipeline.said("wait:successor", about=document), "the successor")

    _thaw(pipeline, document, zombie)
    assert pipeline.status(pipeline.job("ocr", document)) == "doing"
    assert pipeline.ledger("ocr", document)[0] == "in_progress"
    _assert_does_more_work(pipeline, zombie)

    pipeline.open("successor")
    assert pipeline.until_ended(1) == "succeeded"
    assert pipeline.ledger("ocr", document) == ("processed", None, 2)
    assert pipeline.until_ended(2) == "succeeded"
    pipeline.check()


def test_successor_has_failed(pipeline: Pipeline) -> None:
    """The success of the zombie does not bring the failed unit back to life."""
    document, zombie = _freeze_in_mid_job(pipeline, "permanent")
    successor = pipeline.worker()
    assert pipeline.until_ended(1) == "partial"
    successor.stop()  # so that the zombie is the only one who can do more work

    _thaw(pipeline, document, zombie)
    assert pipeline.status(pipeline.job("ocr", document)) == "failed"
    assert pipeline.ledger("ocr", document) == ("failed_terminal", "PdfEncrypted", 2)
    assert pipeline.counters("ocr") == (2, 1, 1)
    _assert_does_more_work(pipeline, zombie)
    pipeline.worker()
    assert pipeline.until_ended(2) == "succeeded"
    pipeline.check()


def test_successor_has_succeeded(pipeline: Pipeline) -> None:
    document, zombie = _freeze_in_mid_job(pipeline, "ok")
    successor = pipeline.worker()
    assert pipeline.until_ended(1) == "succeeded"
    successor.stop()

    _thaw(pipeline, document, zombie)
    assert pipeline.counters("ocr") == (2, 2, 0)
    assert pipeline.one("select deferred_count from pipeline_transitions where phase = 2") == 1
    _assert_does_more_work(pipeline, zombie)
    pipeline.worker()
    assert pipeline.until_ended(2) == "succeeded"
    pipeline.check()


def test_zombie_that_fails_changes_nothing_either(pipeline: Pipeline) -> None:
    """Its retry would give the successor's job back, and its failure would end it."""
    document, failing = pipeline.site(documents=2)
    pipeline.item("ocr", document, "wait:thawed,transient", "wait:successor")
    pipeline.item("ocr", failing, "wait:thawed,permanent", "wait:successor")
    run = pipeline.start(first_phase=2)
    zombie = pipeline.worker("ocr", concurrency=2)
    until(lambda: len(pipeline.said()) == 2, "both at work")
    zombie.freeze()
    jobs = [pipeline.job("ocr", item) for item in (document, failing)]
    pipeline.lapse(*jobs)
    assert pipeline.rescue() == 2
    pipeline.worker(concurrency=2)
    until(lambda: len(pipeline.said("wait:successor")) == 2, "both successors")

    pipeline.open("thawed")
    zombie.thaw()
    until(lambda: len(pipeline.ignored("fenced")) == 2, "both fenced")
    assert sorted(pipeline.all("select job_id, attempt, status from ignored_results")) == [
        (jobs[0], 0, "todo"),
        (jobs[1], 0, "failed"),
    ]
    assert [pipeline.status(job) for job in jobs] == ["doing", "doing"]
    pipeline.open("successor")
    assert pipeline.until_ended(run) == "succeeded"
    assert zombie.lives()
    pipeline.check()


def test_process_that_is_given_back_its_own_job(pipeline: Pipeline) -> None:
    """Holder and job are the same: only the attempt tells the old result from the new."""
    document, _ = pipeline.site(documents=2)
    pipeline.item("ocr", document, "wait:first", "wait:second")
    run = pipeline.start(first_phase=2)
    worker = pipeline.worker(concurrency=3)
    until(lambda: pipeline.said("wait:first"), "the first attempt")
    worker.freeze()
    job = pipeline.job("ocr", document)
    pipeline.lapse(job)
    assert pipeline.rescue() == 1
    worker.thaw()
    until(lambda: pipeline.said("wait:second", pid=worker.pid), "the second attempt in the same process")

    pipeline.open("first")
    until(lambda: pipeline.ignored("fenced") == [(job, 0)], "the first attempt fenced")
    assert pipeline.status(job) == "doing"
    pipeline.open("second")
    assert pipeline.until_ended(run) == "succeeded"
    assert pipeline.ledger("ocr", document) == ("processed", None, 2)
    pipeline.check()


def test_frozen_coordinator(pipeline: Pipeline) -> None:
    """Frozen before it advanced; its successor advanced; thawed, it finds the phase behind it."""
    pipeline.site(documents=2)
    pipeline.item("coordinate", 2, "wait:thawed", "ok")
    run = pipeline.start(first_phase=2)
    zombie = pipeline.worker("ocr", "coordinator")
    (frozen,) = until(lambda: pipeline.said("wait:thawed", stage="coordinate"), "the coordinator")
    zombie.freeze()
    pipeline.lapse(frozen.job)
    assert pipeline.rescue() == 1
    pipeline.worker()
    assert pipeline.until_ended(run) == "succeeded"

    pipeline.open("thawed")
    zombie.thaw()
    until(lambda: pipeline.ignored("fenced") == [(frozen.job, 0)], "the coordinator fenced")
    assert pipeline.said("stale", job=frozen.job, pid=zombie.pid)
    assert zombie.lives()
    pipeline.check()


def test_worker_frozen_until_its_registration_was_pruned(pipeline: Pipeline) -> None:
    """Its heartbeat is silently void and its next fetch breaks a foreign key: it registers again and works on."""
    document, _ = pipeline.site(documents=2)
    pipeline.item("ocr", document, "wait:thawed")
    run = pipeline.start(first_phase=2)
    zombie = pipeline.worker()
    until(lambda: pipeline.said("wait:thawed"), "at work")
    zombie.freeze()
    pipeline.connection.execute("delete from procrastinate_workers")
    pipeline.open("thawed")
    zombie.thaw()
    assert pipeline.until_ended(run) == "succeeded"
    assert {said.pid for said in pipeline.said()} == {zombie.pid}
    assert pipeline.one("select pid from worker_status where queues @> '{ocr}'") == str(zombie.pid), "it says who it is"
    assert zombie.stop() == 0
    pipeline.check()
