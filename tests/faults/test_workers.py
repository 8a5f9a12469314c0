"""How a worker ends: gently when asked, loudly when the database says what nobody foresaw."""

from __future__ import annotations

import signal

from tests.faults.pipeline import Pipeline, until


def test_worker_drains_and_keeps_its_claims_meanwhile(pipeline: Pipeline) -> None:
    """Procrastinate stops all signs of life first: a long drain would look like a death, and be done twice."""
    document, _ = pipeline.site(documents=2)
    pipeline.policy("ocr", lease="1 second")
    pipeline.item("ocr", document, "wait:drained")
    run = pipeline.start(first_phase=2)
    worker = pipeline.worker()
    until(lambda: pipeline.said("wait:drained"), "at work")
    worker.send(signal.SIGTERM)
    until(lambda: worker.said("Stop requested"), "draining")
    asked_at = pipeline.one("select clock_timestamp()")
    renewed = "select lease_until > %s + interval '2 seconds' from job_claims where job_id = %s"
    until(lambda: pipeline.one(renewed, asked_at, pipeline.job("ocr", document)), "a renewal while draining")
    assert pipeline.rescue() == 0

    pipeline.open("drained")
    assert worker.wait() == 0
    assert pipeline.ledger("ocr", document) == ("processed", None, 1)
    assert pipeline.one("select count(*) from procrastinate_workers") == 0
    pipeline.worker()
    assert pipeline.until_ended(run) == "succeeded"
    pipeline.check()


def test_unknown_error_at_fetch_ends_the_worker(pipeline: Pipeline) -> None:
    worker = pipeline.worker()
    until(lambda: worker.said("Starting worker"), "at work")
    pipeline.connection.execute("drop function clerk_fetch_job")
    assert worker.wait() not in (0, None)
    assert worker.said("clerk_fetch_job")


def test_unknown_error_at_finish_ends_the_worker(pipeline: Pipeline) -> None:
    """The job stays as it is until its lease is over; a worker that went on would break every job it finds."""
    document, other = pipeline.site(documents=2)
    broken = """
        create function faults.break() returns trigger language plpgsql as $$ begin return 1 / 0; end $$;
        create trigger faults_break before update on procrastinate_jobs
            for each row when (new.status = 'succeeded') execute function faults.break();
    """
    run = pipeline.start(first_phase=2)
    pipeline.connection.execute(broken)
    worker = pipeline.worker()
    assert worker.wait() not in (0, None)
    assert worker.said("division by zero")
    assert pipeline.ledger("ocr", other)[0] == "pending"

    pipeline.connection.execute("drop trigger faults_break on procrastinate_jobs")
    pipeline.lapse(pipeline.job("ocr", document))
    assert pipeline.rescue() == 1
    pipeline.worker()
    assert pipeline.until_ended(run) == "succeeded"
    pipeline.check()
