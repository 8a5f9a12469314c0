"""Registration, slots and shutdown of a worker, and its exit after unexpected database errors."""

from __future__ import annotations

import asyncio
import signal
import socket

import psycopg
import pytest
from procrastinate import jobs

from clerk.app import ClerkApp
from clerk.pipeline.completer import BatchCompleter
from clerk.pipeline.job_manager import ClerkJobManager
from tests.faults.pipeline import Pipeline, until


def test_worker_renews_its_leases_while_it_shuts_down(pipeline: Pipeline) -> None:
    """Procrastinate stops the heartbeat first: without renewal, long jobs would be rescued and repeated."""
    document, _ = pipeline.add_site(documents=2)
    pipeline.set_policy("ocr", lease="6 seconds")
    pipeline.plan_item("ocr", document, "wait:finish")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker()
    until(lambda: pipeline.steps("wait:finish"), "a running job")
    worker.send(signal.SIGTERM)
    until(lambda: worker.has_logged("Stop requested"), "the start of the shutdown")
    stopped_at = pipeline.scalar("select clock_timestamp()")
    renewed = "select lease_until > %s + interval '6 seconds' from job_claims where job_id = %s"
    until(
        lambda: pipeline.scalar(renewed, stopped_at, pipeline.job_id("ocr", document)), "a renewal during the shutdown"
    )
    assert pipeline.rescue() == 0

    pipeline.open_gate("finish")
    assert worker.wait() == 0
    assert pipeline.ledger("ocr", document) == ("processed", None, 1)
    assert pipeline.scalar("select count(*) from procrastinate_workers") == 0
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    pipeline.check_invariants()


def test_worker_registers_its_process_and_queues(pipeline: Pipeline) -> None:
    (document,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", document, "wait:seen")
    pipeline.start_run(first_phase=2)
    worker = pipeline.worker("ocr", "deploy")
    until(lambda: pipeline.steps("wait:seen"), "a running job")
    (row,) = pipeline.rows("select pid, host, queues, running, doing from worker_status where alive")
    assert row[:1] == (str(worker.pid),)
    assert socket.gethostname().startswith(row[1] or "nowhere")
    assert row[2:] == (["ocr", "deploy"], 1, f"ocr {pipeline.scalar('select subdomain from sites')} 0")
    pipeline.open_gate("seen")
    assert worker.stop() == 0
    assert pipeline.scalar("select count(*) from worker_processes") == 0


def test_jobs_of_a_fetch_in_flight_are_released_when_a_worker_stops(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", pipeline.url)
    pipeline.add_site(documents=5)
    run = pipeline.start_run(first_phase=2)
    started: list[jobs.Job] = []

    async def scenario() -> None:
        async with ClerkApp().open_async() as app:
            manager = app.job_manager
            assert isinstance(manager, ClerkJobManager)
            completer = BatchCompleter(manager, await manager.register_worker(), ["ocr"], 3, started.append)
            with psycopg.connect(pipeline.url) as holder:
                holder.execute("lock table job_claims")
                fetching = asyncio.create_task(completer.fetch())
                waiting = (
                    "select count(*) from pg_stat_activity where datname = current_database()"
                    " and wait_event_type = 'Lock' and query like '%clerk_finish_and_fetch_jobs%'"
                )
                while not pipeline.scalar(waiting):
                    await asyncio.sleep(0.01)
                stopping = asyncio.create_task(completer.stop_fetching())
                await asyncio.sleep(0)
            await stopping
            fetching.cancel()

    asyncio.run(scenario())
    assert started == []
    jobs_by_status = "select status::text, attempts, count(*) from procrastinate_jobs group by 1, 2 order by 2"
    assert pipeline.rows(jobs_by_status) == [("todo", 0, 2), ("todo", 1, 3)]
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.counters("ocr") == (5, 5, 0)
    pipeline.check_invariants()


def test_a_worker_claims_no_more_jobs_than_it_has_slots(pipeline: Pipeline) -> None:
    documents = pipeline.add_site(documents=5)
    for document in documents:
        pipeline.plan_item("ocr", document, "wait:seen")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker(concurrency=2)
    until(lambda: len(pipeline.steps("wait:seen")) == 2, "two at work")
    assert pipeline.scalar("select count(*) from procrastinate_jobs where status = 'doing'") == 2
    pipeline.open_gate("seen")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.scalar("select max(attempts) from procrastinate_jobs where queue_name = 'ocr'") == 1
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_unexpected_error_at_fetch_ends_the_worker(pipeline: Pipeline) -> None:
    worker = pipeline.worker()
    until(lambda: worker.has_logged("Starting worker"), "a running job")
    pipeline.connection.execute("drop function clerk_fetch_jobs")
    assert worker.wait() not in (0, None)
    assert worker.has_logged("clerk_fetch_jobs")


def test_unexpected_error_at_finish_ends_the_worker(pipeline: Pipeline) -> None:
    """The job is rescued when its lease expires. A worker that continued would break every job it claims."""
    document, other = pipeline.add_site(documents=2)
    raise_error = """
        create function faults.break() returns trigger language plpgsql as $$ begin return 1 / 0; end $$;
        create trigger faults_break before update on procrastinate_jobs
            for each row when (new.status = 'succeeded') execute function faults.break();
    """
    run = pipeline.start_run(first_phase=2)
    pipeline.connection.execute(raise_error)
    worker = pipeline.worker()
    assert worker.wait() not in (0, None)
    assert worker.has_logged("division by zero")
    assert pipeline.ledger("ocr", other)[0] == "pending"

    pipeline.connection.execute("drop trigger faults_break on procrastinate_jobs")
    pipeline.expire_leases(pipeline.job_id("ocr", document))
    assert pipeline.rescue() == 1
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    pipeline.check_invariants()
