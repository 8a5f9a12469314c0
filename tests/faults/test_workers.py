"""How a worker ends: gently when asked, loudly when the database says what nobody foresaw."""

from __future__ import annotations

import asyncio
import signal
import socket

import pytest
from procrastinate import jobs

from clerk.app import ClerkApp
from clerk.pipeline.job_manager import ClerkJobManager
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


def test_says_who_it_is_and_what_it_reads(pipeline: Pipeline) -> None:
    (document,) = pipeline.site(documents=1)
    pipeline.item("ocr", document, "wait:seen")
    pipeline.start(first_phase=2)
    worker = pipeline.worker("ocr", "deploy")
    until(lambda: pipeline.said("wait:seen"), "at work")
    (row,) = pipeline.all("select pid, host, queues, running, doing from worker_status where alive")
    assert row[:1] == (str(worker.pid),)
    assert socket.gethostname().startswith(row[1] or "nowhere")
    assert row[2:] == (["ocr", "deploy"], 1, f"ocr {pipeline.one('select subdomain from sites')} 0")
    pipeline.open("seen")
    assert worker.stop() == 0
    assert pipeline.one("select count(*) from worker_processes") == 0


def test_free_places_are_filled_at_once_and_what_was_not_begun_is_given_back(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", pipeline.url)
    pipeline.site(documents=5)
    run = pipeline.start(first_phase=2)
    by_status = "select status::text, count(*) from procrastinate_jobs where queue_name = 'ocr' group by 1 order by 1"

    async def scene() -> None:
        async with ClerkApp().open_async() as app:
            manager = app.job_manager
            assert isinstance(manager, ClerkJobManager)
            worker = await manager.register_worker()
            manager.free_slots[worker] = lambda: 3
            job = await manager.fetch_job(["ocr"], worker)
            assert job is not None
            assert pipeline.all(by_status) == [("doing", 3), ("todo", 2)]
            await manager.release_unstarted(worker)
            assert pipeline.all(by_status) == [("doing", 1), ("todo", 4)]
            await manager.finish_job(job, jobs.Status.SUCCEEDED, delete_job=False)

    asyncio.run(scene())
    pipeline.worker()
    assert pipeline.until_ended(run) == "succeeded"
    assert pipeline.counters("ocr") == (5, 5, 0)
    pipeline.check()


def test_a_worker_takes_no_more_jobs_than_it_has_places(pipeline: Pipeline) -> None:
    documents = pipeline.site(documents=5)
    for document in documents:
        pipeline.item("ocr", document, "wait:seen")
    run = pipeline.start(first_phase=2)
    worker = pipeline.worker(concurrency=2)
    until(lambda: len(pipeline.said("wait:seen")) == 2, "two at work")
    assert pipeline.one("select count(*) from procrastinate_jobs where status = 'doing'") == 2
    pipeline.open("seen")
    assert pipeline.until_ended(run) == "succeeded"
    assert pipeline.one("select max(attempts) from procrastinate_jobs where queue_name = 'ocr'") == 1
    assert worker.stop() == 0
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
