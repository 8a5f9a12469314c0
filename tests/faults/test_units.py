"""Members that fail, die, hang, or are nobody: scenarios 1, 4, 7, 8, 9, 10, 11, 19 and 22."""

from __future__ import annotations

import pytest

from clerk.pipeline.worker import EX_TEMPFAIL
from tests.faults.pipeline import Pipeline, until


def test_failed_members_do_not_block_the_fan_in(pipeline: Pipeline) -> None:
    """Scenario 1. One fails for good, one at first, one every time; the site is published with the rest."""
    good, broken, shaky, hopeless, other = pipeline.site(documents=5)
    pipeline.item("ocr", broken, "permanent")
    pipeline.item("ocr", shaky, "transient", "transient", "ok")
    pipeline.item("ocr", hopeless, "transient")
    run = pipeline.start()
    pipeline.worker(concurrency=3)

    assert pipeline.until_ended(run) == "partial"
    assert pipeline.counters("ocr") == (5, 3, 2)
    assert pipeline.counters("extraction") == (3, 3, 0)
    assert pipeline.ledger("ocr", good) == ("processed", None, 1)
    assert pipeline.ledger("ocr", other) == ("processed", None, 1)
    assert pipeline.ledger("ocr", broken) == ("failed_terminal", "PdfEncrypted", 1)
    assert pipeline.ledger("ocr", shaky) == ("processed", None, 3)
    assert pipeline.ledger("ocr", hopeless) == ("failed_terminal", "ConnectionError", 3)
    pipeline.check()


def test_totals_of_zero_and_of_one(pipeline: Pipeline) -> None:
    """Scenario 4. No document, one document, and a phase of which one stage has none."""
    pipeline.site("empty", documents=0)
    pipeline.site("single", documents=1)
    empty, single = pipeline.start("empty"), pipeline.start("single")
    pipeline.worker()

    assert pipeline.until_ended(empty) == "no_documents"
    assert pipeline.counters("ocr", "empty") == (0, 0, 0)
    assert pipeline.until_ended(single) == "succeeded"
    assert pipeline.counters("ocr", "single") == (1, 1, 0)

    only_compilation = pipeline.start("single", first_phase=3)
    assert pipeline.until_ended(only_compilation) == "succeeded"
    assert pipeline.counters("extraction", "single") == (0, 0, 0)
    assert pipeline.counters("compilation", "single") == (1, 1, 0)
    pipeline.check()


def test_job_past_its_time_limit_is_stopped_and_tried_again(pipeline: Pipeline) -> None:
    """Scenario 7. One listens when told to stop, one is deaf: the worker goes on without it."""
    heeding, slow, deaf, other = pipeline.site(documents=4)
    pipeline.policy("ocr", lease="1 second", time_limit="1 second", max_attempts=2)
    pipeline.item("ocr", heeding, "heed:never", "ok")
    pipeline.item("ocr", slow, "heed:never")
    # The second attempt is made by the same process: what the first was told must not stop it.
    pipeline.item("ocr", deaf, "wait:never", "heed:soon")
    run = pipeline.start()
    worker = pipeline.worker(concurrency=6)

    until(lambda: pipeline.rescue() or pipeline.said("heed:soon"), "the second attempt of the deaf one")
    pipeline.open("soon")
    assert pipeline.until_ended(run) == "partial"
    assert pipeline.ledger("ocr", heeding) == ("processed", None, 2)
    assert pipeline.ledger("ocr", slow) == ("failed_terminal", "TimeLimitExceeded", 2)
    assert pipeline.ledger("ocr", deaf) == ("processed", None, 2)
    assert pipeline.ledger("ocr", other) == ("processed", None, 1)

    pipeline.open("never")
    until(lambda: pipeline.ignored("fenced"), "the deaf one's own result")
    assert pipeline.ignored("fenced") == [(pipeline.job("ocr", deaf), 0)]
    assert worker.lives()
    pipeline.check()


def test_worker_whose_only_place_is_taken_by_a_deaf_job_ends_itself(pipeline: Pipeline) -> None:
    """Scenario 7. A thread cannot be stopped: without this its queue would stand still with everything green."""
    deaf, other = pipeline.site(documents=2)
    pipeline.policy("ocr", lease="1 second", time_limit="1 second")
    pipeline.item("ocr", deaf, "wait:never", "ok")
    run = pipeline.start(first_phase=2)

    assert pipeline.worker("ocr", unresponsive_after=0.1).wait() == EX_TEMPFAIL
    assert pipeline.ledger("ocr", other)[0] == "pending"
    until(pipeline.rescue, "the lease of the deaf job is over")
    pipeline.worker()
    assert pipeline.until_ended(run) == "succeeded"
    pipeline.check()


@pytest.mark.parametrize("death", ["kill", "segfault", "memory"])
def test_member_that_takes_its_worker_down_again_and_again(pipeline: Pipeline, death: str) -> None:
    """Scenario 8. The supervisor starts another worker each time; the poison ends, its neighbours are not hurt."""
    before, poison, after = pipeline.site()
    pipeline.item("ocr", poison, death)
    run = pipeline.start()
    worker = pipeline.worker()

    def supervised() -> str | None:
        nonlocal worker
        if not worker.lives():
            pipeline.lapse(pipeline.job("ocr", poison))
            pipeline.rescue()
            worker = pipeline.worker()
        return pipeline.outcome(run)

    assert until(supervised, "the end of the run") == "partial"
    assert len(pipeline.said(death, about=poison)) == 3
    assert len(pipeline.workers) == (1 if death == "memory" else 4)
    error = "MemoryError" if death == "memory" else "WorkerLost"
    assert pipeline.ledger("ocr", poison) == ("failed_terminal", error, 3)
    assert pipeline.ledger("ocr", before) == ("processed", None, 1)
    assert pipeline.ledger("ocr", after) == ("processed", None, 1)
    pipeline.check()


def test_no_new_documents_publishes_nothing(pipeline: Pipeline) -> None:
    """Scenario 9."""
    pipeline.site()
    first = pipeline.start()
    pipeline.worker()
    assert pipeline.until_ended(first) == "succeeded"

    second = pipeline.start()
    assert pipeline.until_ended(second) == "unchanged"
    assert pipeline.counters("ocr") == (0, 0, 0)
    assert len(pipeline.said("done", stage="deploy")) == 1
    pipeline.check()


def test_poison_documents_are_failed_and_not_tried_for_ever(pipeline: Pipeline) -> None:
    """Scenario 10, the engine's part: one attempt, the reason in the ledger, and no other run tries again."""
    reasons = ["PdfEncrypted", "NotAPdf", "PdfTruncated"]
    _, *poison = pipeline.site(documents=1 + len(reasons))
    for item, reason in zip(poison, reasons, strict=True):
        pipeline.item("ocr", item, f"permanent:{reason}")
    first = pipeline.start()
    pipeline.worker()
    assert pipeline.until_ended(first) == "partial"

    second = pipeline.start()
    assert pipeline.until_ended(second) == "unchanged"
    for item, reason in zip(poison, reasons, strict=True):
        assert pipeline.ledger("ocr", item) == ("failed_terminal", reason, 1)
        assert len(pipeline.said(about=item, stage="ocr")) == 1
    assert pipeline.one("select last_error_message from sites") == "PdfTruncated: no luck with attempt 1"

    # Only a site of which nothing at all can be read has failed.
    (hopeless,) = pipeline.site("unreadable", documents=1)
    pipeline.item("ocr", hopeless, "permanent")
    assert pipeline.until_ended(pipeline.start("unreadable")) == "failed"
    pipeline.check()


def test_one_page_of_many_fails(pipeline: Pipeline) -> None:
    """Scenario 11, the engine's part: progress shows, a transient page comes back, a broken one fails its document."""
    whole, broken = pipeline.site(documents=2)
    pipeline.item("ocr", whole, "pages:..|..")
    pipeline.item("ocr", broken, "pages:..x..")
    run = pipeline.start()
    pipeline.worker(concurrency=2)

    progress = "select progress, progress_total from job_claims where job_id = %s"
    until(lambda: len(pipeline.said("page", about=whole)) == 2, "two pages")
    assert pipeline.all(progress, pipeline.job("ocr", whole)) == [(2, 5)]
    pipeline.open("page")
    assert pipeline.until_ended(run) == "partial"
    assert pipeline.all(progress, pipeline.job("ocr", whole)) == [(5, 5)]
    assert pipeline.ledger("ocr", whole) == ("processed", None, 1)
    assert pipeline.ledger("ocr", broken) == ("failed_terminal", "PdfTruncated", 1)
    pipeline.check()


def test_last_two_members_finish_at_the_same_instant(pipeline: Pipeline) -> None:
    """Scenario 19 with real workers, many sites at once; tests/engine does it thousands of times in SQL."""
    sites = [f"town{number}" for number in range(25)]
    for site in sites:
        pipeline.site(site, documents=2)
    pipeline.will(ocr="wait:now", compilation="wait:then", extraction="wait:then")
    runs = [pipeline.start(site, first_phase=2) for site in sites]
    for _ in range(2):
        pipeline.worker("ocr", "compilation", "extraction", concurrency=40)
    pipeline.worker("coordinator", "deploy", concurrency=2)

    running = "select count(*) from procrastinate_jobs where status = 'doing' and queue_name <> 'coordinator'"
    until(lambda: pipeline.one(running) == 50, "all OCR running")
    pipeline.open("now")
    until(lambda: pipeline.one(running) == 75, "all of phase 3 running")
    pipeline.open("then")
    for run in runs:
        assert pipeline.until_ended(run) == "succeeded"
    assert pipeline.one("select max(deferred_count) from pipeline_transitions") == 1
    pipeline.check()


def test_run_with_fewer_members_than_the_one_before(pipeline: Pipeline) -> None:
    """Scenario 22. Totals belong to the run: the older, larger ones hold nobody up."""
    documents = pipeline.site(documents=6)
    pipeline.worker(concurrency=3)
    assert pipeline.until_ended(pipeline.start()) == "succeeded"
    assert pipeline.counters("ocr") == (6, 6, 0)

    assert pipeline.until_ended(pipeline.start(first_phase=2, units=documents[:2])) == "succeeded"
    assert pipeline.counters("ocr") == (2, 2, 0)
    pipeline.check()
