"""Units that fail, kill their worker or hang, and runs with no or few units: scenarios 1, 4, 7 to 11, 19 and 22."""

from __future__ import annotations

import pytest

from clerk.pipeline.worker import EX_TEMPFAIL
from tests.faults.pipeline import Pipeline, until


def test_failed_units_do_not_block_the_fan_in(pipeline: Pipeline) -> None:
    """Scenario 1. One fails permanently, one at first, one at every attempt; the site is published without them."""
    good, broken, flaky, hopeless, other = pipeline.add_site(documents=5)
    pipeline.plan_item("ocr", broken, "permanent")
    pipeline.plan_item("ocr", flaky, "transient", "transient", "ok")
    pipeline.plan_item("ocr", hopeless, "transient")
    run = pipeline.start_run()
    pipeline.worker(concurrency=3)

    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.counters("ocr") == (5, 3, 2)
    assert pipeline.counters("extraction") == (3, 3, 0)
    assert pipeline.ledger("ocr", good) == ("processed", None, 1)
    assert pipeline.ledger("ocr", other) == ("processed", None, 1)
    assert pipeline.ledger("ocr", broken) == ("failed_terminal", "PdfEncrypted", 1)
    assert pipeline.ledger("ocr", flaky) == ("processed", None, 3)
    assert pipeline.ledger("ocr", hopeless) == ("failed_terminal", "DownloadFailed", 3)
    pipeline.check_invariants()


def test_totals_of_zero_and_of_one(pipeline: Pipeline) -> None:
    """Scenario 4. No document, one document, and a phase with an empty stage."""
    pipeline.add_site("empty", documents=0)
    pipeline.add_site("single", documents=1)
    empty, single = pipeline.start_run("empty"), pipeline.start_run("single")
    pipeline.worker()

    assert pipeline.wait_for_end(empty) == "no_documents"
    assert pipeline.counters("ocr", "empty") == (0, 0, 0)
    assert pipeline.wait_for_end(single) == "succeeded"
    assert pipeline.counters("ocr", "single") == (1, 1, 0)

    only_compilation = pipeline.start_run("single", first_phase=3)
    assert pipeline.wait_for_end(only_compilation) == "succeeded"
    assert pipeline.counters("extraction", "single") == (0, 0, 0)
    assert pipeline.counters("compilation", "single") == (1, 1, 0)
    pipeline.check_invariants()


def test_job_that_exceeds_its_time_limit_is_stopped_and_retried(pipeline: Pipeline) -> None:
    """Scenario 7. Also a job that ignores the abort request: the worker continues without it."""
    cancellable, slow, unresponsive, other = pipeline.add_site(documents=4)
    pipeline.set_policy("ocr", lease="2 seconds", time_limit="2 seconds", max_attempts=2)
    pipeline.plan_item("ocr", cancellable, "wait_or_stop:never", "ok")
    pipeline.plan_item("ocr", slow, "wait_or_stop:never")
    # The second attempt runs in the same process: the abort request of the first must not stop it.
    pipeline.plan_item("ocr", unresponsive, "wait:never", "wait_or_stop:soon")
    run = pipeline.start_run()
    worker = pipeline.worker(concurrency=6)

    until(lambda: pipeline.counters("ocr") == (4, 2, 1), "the end of the other three")
    until(pipeline.rescue, "the rescue of the unresponsive job")
    # A busy machine must not exceed the limit in the last attempt.
    pipeline.set_policy("ocr", time_limit="10 minutes")
    until(lambda: pipeline.steps("wait_or_stop:soon"), "the second attempt of the unresponsive job")
    pipeline.open_gate("soon")
    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.ledger("ocr", cancellable) == ("processed", None, 2)
    assert pipeline.ledger("ocr", slow) == ("failed_terminal", "TimeLimitExceeded", 2)
    assert pipeline.ledger("ocr", unresponsive) == ("processed", None, 2)
    assert pipeline.ledger("ocr", other) == ("processed", None, 1)

    pipeline.open_gate("never")
    until(lambda: pipeline.ignored_results("fenced"), "the rejected result")
    assert pipeline.ignored_results("fenced") == [(pipeline.job_id("ocr", unresponsive), 0)]
    assert worker.is_alive()
    pipeline.check_invariants()


def test_worker_exits_if_an_unresponsive_job_occupies_its_only_slot(pipeline: Pipeline) -> None:
    """Scenario 7. A thread cannot be killed: otherwise the queue would stop without any alert."""
    unresponsive, other = pipeline.add_site(documents=2)
    pipeline.set_policy("ocr", lease="1 second", time_limit="1 second")
    pipeline.plan_item("ocr", unresponsive, "wait:never", "ok")
    run = pipeline.start_run(first_phase=2)

    assert pipeline.worker("ocr", unresponsive_after=0.1).wait() == EX_TEMPFAIL
    assert pipeline.ledger("ocr", other)[0] == "pending"
    until(pipeline.rescue, "the rescue of the unresponsive job")
    pipeline.set_policy("ocr", time_limit="10 minutes")
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    pipeline.check_invariants()


@pytest.mark.parametrize("death", ["kill", "segfault"])
def test_unit_that_kills_its_worker_at_every_attempt(pipeline: Pipeline, death: str) -> None:
    """Scenario 8. The worker is restarted each time. The unit fails in the end, and other units are not affected."""
    before, fatal, after = pipeline.add_site()
    pipeline.plan_item("ocr", fatal, death)
    run = pipeline.start_run()
    worker = pipeline.worker()

    def restart_worker() -> str | None:
        nonlocal worker
        if not worker.is_alive():
            pipeline.expire_leases(pipeline.job_id("ocr", fatal))
            pipeline.rescue()
            worker = pipeline.worker()
        return pipeline.outcome(run)

    assert until(restart_worker, "the end of the run") == "partial"
    assert len(pipeline.steps(death, item=fatal)) == 3
    assert len(pipeline.workers) == 4
    assert pipeline.ledger("ocr", fatal) == ("failed_terminal", "WorkerLost", 3)
    assert pipeline.ledger("ocr", before) == ("processed", None, 1)
    assert pipeline.ledger("ocr", after) == ("processed", None, 1)
    pipeline.check_invariants()


def test_no_new_documents_publishes_nothing(pipeline: Pipeline) -> None:
    """Scenario 9."""
    pipeline.add_site()
    first = pipeline.start_run()
    pipeline.worker()
    assert pipeline.wait_for_end(first) == "succeeded"

    second = pipeline.start_run()
    assert pipeline.wait_for_end(second) == "unchanged"
    assert pipeline.counters("ocr") == (0, 0, 0)
    assert len(pipeline.steps("done", stage="deploy")) == 1
    pipeline.check_invariants()


def test_permanent_failures_are_not_retried(pipeline: Pipeline) -> None:
    """Scenario 10, the engine's part: one attempt, the reason in the ledger, and no attempt in later runs."""
    reasons = ["PdfEncrypted", "NotAPdf", "PdfTruncated"]
    _, *fatal = pipeline.add_site(documents=1 + len(reasons))
    for item, reason in zip(fatal, reasons, strict=True):
        pipeline.plan_item("ocr", item, f"permanent:{reason}")
    first = pipeline.start_run()
    pipeline.worker()
    assert pipeline.wait_for_end(first) == "partial"

    second = pipeline.start_run()
    assert pipeline.wait_for_end(second) == "unchanged"
    for item, reason in zip(fatal, reasons, strict=True):
        assert pipeline.ledger("ocr", item) == ("failed_terminal", reason, 1)
        assert len(pipeline.steps(item=item, stage="ocr")) == 1
    assert pipeline.scalar("select last_error_message from sites") == "PdfTruncated: attempt 1 failed"

    # A run fails if none of the site's documents can be processed.
    (hopeless,) = pipeline.add_site("unreadable", documents=1)
    pipeline.plan_item("ocr", hopeless, "permanent")
    assert pipeline.wait_for_end(pipeline.start_run("unreadable")) == "failed"
    pipeline.check_invariants()


def test_a_failed_page_fails_its_document(pipeline: Pipeline) -> None:
    """Scenario 11, the engine's part. Progress is recorded."""
    whole, broken = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", whole, "pages:..|..")
    pipeline.plan_item("ocr", broken, "pages:..x..")
    run = pipeline.start_run()
    pipeline.worker(concurrency=2)

    progress = "select progress, progress_total from job_claims where job_id = %s"
    until(lambda: len(pipeline.steps("page", item=whole)) == 2, "two pages")
    assert pipeline.rows(progress, pipeline.job_id("ocr", whole)) == [(2, 5)]
    pipeline.open_gate("page")
    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.rows(progress, pipeline.job_id("ocr", whole)) == [(5, 5)]
    assert pipeline.ledger("ocr", whole) == ("processed", None, 1)
    assert pipeline.ledger("ocr", broken) == ("failed_terminal", "PdfTruncated", 1)
    pipeline.check_invariants()


def test_last_two_units_finish_at_the_same_time(pipeline: Pipeline) -> None:
    """Scenario 19 with real workers and many sites; tests/engine repeats it thousands of times in SQL."""
    sites = [f"town{number}" for number in range(25)]
    for site in sites:
        pipeline.add_site(site, documents=2)
    pipeline.set_plan(ocr="wait:now", compilation="wait:then", extraction="wait:then")
    runs = [pipeline.start_run(site, first_phase=2) for site in sites]
    for _ in range(2):
        pipeline.worker("ocr", "compilation", "extraction", concurrency=40)
    pipeline.worker("coordinator", "deploy", concurrency=2)

    running = "select count(*) from procrastinate_jobs where status = 'doing' and queue_name <> 'coordinator'"
    until(lambda: pipeline.scalar(running) == 50, "all OCR running")
    pipeline.open_gate("now")
    until(lambda: pipeline.scalar(running) == 75, "all of phase 3 running")
    pipeline.open_gate("then")
    for run in runs:
        assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.scalar("select max(deferred_count) from pipeline_transitions") == 1
    pipeline.check_invariants()


def test_run_with_fewer_units_than_the_one_before(pipeline: Pipeline) -> None:
    """Scenario 22. Totals belong to the run: larger totals of an earlier run must not block it."""
    documents = pipeline.add_site(documents=6)
    pipeline.worker(concurrency=3)
    assert pipeline.wait_for_end(pipeline.start_run()) == "succeeded"
    assert pipeline.counters("ocr") == (6, 6, 0)

    assert pipeline.wait_for_end(pipeline.start_run(first_phase=2, units=documents[:2])) == "succeeded"
    assert pipeline.counters("ocr") == (2, 2, 0)
    pipeline.check_invariants()
