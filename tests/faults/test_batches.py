"""Batches of results: several sites in one transaction, a locked site, lost responses, crashes, rescued jobs."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import psycopg
import pytest
from procrastinate import jobs

from clerk.app import ClerkApp
from clerk.db.embedded.server import Server
from clerk.pipeline.completer import BatchCompleter
from clerk.pipeline.job_manager import ClerkJobManager
from tests.faults.pipeline import Pipeline, pipeline_on, until
from tests.faults.proxy import Proxy
from tests.faults.test_database import _EXCHANGE, _NO_POLLING, _immediate, own_server, proxy  # noqa: F401 (fixtures)


def _release_together(pipeline: Pipeline, documents: list[int]) -> None:
    """Let jobs that wait at the gate end at the same time."""
    until(lambda: len(pipeline.steps("wait:gate")) == len(documents), "all at work")
    pipeline.open_gate("gate")


def _start(pipeline: Pipeline, *sites: str, documents: int) -> tuple[list[int], list[int]]:
    """Start runs whose OCR jobs wait at the gate; returns the documents and the runs."""
    added, runs = [], []
    for site in sites:
        added += pipeline.add_site(site, documents=documents)
        runs.append(pipeline.start_run(site, first_phase=2))
    for document in added:
        pipeline.plan_item("ocr", document, "wait:gate")
    return added, runs


def test_the_last_units_of_several_sites_end_in_one_batch(pipeline: Pipeline) -> None:
    documents, runs = _start(pipeline, "a", "b", "c", documents=3)
    pipeline.worker(concurrency=9)
    _release_together(pipeline, documents)
    assert [pipeline.wait_for_end(run) for run in runs] == ["succeeded"] * 3
    coordinators = (
        "select count(*) from procrastinate_jobs where task_name = 'clerk.coordinate' and args ->> 'phase' = '2'"
    )
    assert pipeline.scalar(coordinators) == 3
    pipeline.check_invariants()


def test_a_process_for_all_queues_runs_one_ocr_job_per_core(pipeline: Pipeline) -> None:
    """Without polling, so that each job that ends, also one that fails, must be followed by the next."""
    documents, (run,) = _start(pipeline, "a", documents=6)
    for document in documents[:3]:
        pipeline.plan_item("ocr", document, "wait:gate,permanent")
    pipeline.add_site("b", documents=0)
    other = pipeline.start_run("b")
    pipeline.worker(concurrency=5, cpu_concurrency=2, options=_NO_POLLING)
    until(lambda: len(pipeline.steps(stage="ocr")) == 2, "two OCR jobs run")
    until(lambda: pipeline.counters("fetch", "b") == (1, 1, 0), "a fetch ends while OCR uses all cores")
    assert len(pipeline.steps(stage="ocr")) == 2
    pipeline.open_gate("gate")
    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.wait_for_end(other) == "no_documents"
    assert pipeline.counters("ocr", "a") == (6, 3, 3)
    pipeline.check_invariants()


def test_a_locked_site_does_not_delay_the_results_of_others(pipeline: Pipeline) -> None:
    documents, (run_a, run_b) = _start(pipeline, "a", "b", documents=2)
    worker = pipeline.worker(concurrency=4)
    with psycopg.connect(pipeline.url) as holder:
        holder.execute("select from sites where subdomain = 'a' for update")
        _release_together(pipeline, documents)
        assert pipeline.wait_for_end(run_b) == "succeeded"
        assert pipeline.counters("ocr", "a") == (2, 0, 0)
    assert pipeline.wait_for_end(run_a) == "succeeded"
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_a_worker_that_stops_waits_for_the_result_of_a_locked_site(pipeline: Pipeline) -> None:
    documents, (run,) = _start(pipeline, "a", documents=2)
    worker = pipeline.worker(concurrency=2)
    with psycopg.connect(pipeline.url) as holder:
        holder.execute("select from sites where subdomain = 'a' for update")
        _release_together(pipeline, documents)
        waiting = (
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            " and query like '%clerk_finish_jobs%'"
        )
        until(lambda: pipeline.scalar(waiting), "the results wait for the site")
        worker.send(signal.SIGTERM)
        until(lambda: worker.has_logged("Stop requested"), "the start of the shutdown")
    assert worker.wait() == 0
    assert pipeline.counters("ocr", "a") == (2, 2, 0)
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    pipeline.check_invariants()


def test_a_rescued_job_in_a_batch_is_rejected_and_the_others_are_counted(pipeline: Pipeline) -> None:
    documents, (run,) = _start(pipeline, "a", documents=4)
    worker = pipeline.worker(concurrency=4, options=_NO_POLLING)
    until(lambda: len(pipeline.steps("wait:gate")) == 4, "all at work")
    rescued = pipeline.job_id("ocr", documents[0])
    pipeline.connection.execute(
        "update job_claims set lease_until = now() - interval '1 s' where job_id = %s", [rescued]
    )
    assert pipeline.scalar("select clerk_rescue_job(%s)", rescued) == "rescued"
    pipeline.open_gate("gate")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert len(pipeline.ignored_results("fenced")) == 1
    assert pipeline.counters("ocr", "a") == (4, 4, 0)
    assert worker.is_alive()
    pipeline.check_invariants()


@pytest.mark.parametrize("lost", ["request", "response"])
def test_a_batch_is_lost(pipeline: Pipeline, proxy: Proxy, lost: str) -> None:  # noqa: F811 (fixture)
    """Its jobs are finished one by one. If it was committed, each result is recognised as the worker's own."""
    documents, (run,) = _start(pipeline, "a", documents=5)
    worker = pipeline.worker("ocr", url=proxy.url, concurrency=5, options=_NO_POLLING)
    until(lambda: len(pipeline.steps("wait:gate")) == 5, "all at work")
    cut = proxy.lose_request(_EXCHANGE) if lost == "request" else proxy.lose_response(_EXCHANGE)
    pipeline.open_gate("gate")
    until(lambda: pipeline.counters("ocr", "a") == (5, 5, 0), "all counted")
    until(cut.done.is_set, "the loss")
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.ignored_results("fenced") == []
    for document in documents:
        assert pipeline.ledger("ocr", document) == ("processed", None, 1)
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_a_worker_killed_after_its_batch_was_committed(pipeline: Pipeline, proxy: Proxy) -> None:  # noqa: F811 (fixture)
    documents, (run,) = _start(pipeline, "a", documents=3)
    worker = pipeline.worker("ocr", url=proxy.url, concurrency=3, options=_NO_POLLING)
    until(lambda: len(pipeline.steps("wait:gate")) == 3, "all at work")
    cut = proxy.lose_response(_EXCHANGE)
    pipeline.open_gate("gate")
    until(cut.done.is_set, "the batch committed")
    worker.kill()
    committed = [document for document in documents if pipeline.ledger("ocr", document)[0] == "processed"]
    pipeline.connection.execute("update job_claims set lease_until = now() - interval '1 s' where settled_as is null")
    assert pipeline.rescue() == len(documents) - len(committed)
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert committed
    for document in committed:
        assert pipeline.ledger("ocr", document) == ("processed", None, 1)
    assert pipeline.counters("ocr", "a") == (3, 3, 0)
    pipeline.check_invariants()


def test_postgres_crashes_under_batches(own_server: Server, tmp_path: Path) -> None:  # noqa: F811 (fixture)
    """Three times during a run of 300 short jobs on six sites. No result is lost or counted twice."""
    sites = ("a", "b", "c", "d", "e", "f")
    with pipeline_on(own_server.url(), tmp_path) as pipeline:
        for site in sites:
            pipeline.add_site(site, documents=50)
        runs = [pipeline.start_run(site, first_phase=2) for site in sites]
        workers = [pipeline.worker(concurrency=10) for _ in range(2)]
        for worker in workers:
            until(lambda worker=worker: worker.has_logged("Starting worker"), "the worker at work")  # type: ignore[misc]
        counted = "select sum(ocr_completed) from sites"
        for done in (40, 120, 200):
            until(lambda done=done: pipeline.scalar(counted) >= done, f"{done} done")  # type: ignore[misc]
            _immediate(own_server)
            own_server.start()
            pipeline.reconnect()
        assert [pipeline.wait_for_end(run) for run in runs] == ["succeeded"] * 6
        assert all(worker.is_alive() for worker in workers)
        for site in sites:
            assert pipeline.counters("ocr", site) == (50, 50, 0)
        pipeline.check_invariants()


def test_a_claim_lost_in_a_crash(own_server: Server, tmp_path: Path) -> None:  # noqa: F811 (fixture)
    """Claims are committed asynchronously. After a crash the job waits again, and its worker's late result is rejected
    or, if the worker claims it again, the job is run by its next claim."""
    with psycopg.connect(own_server.url("postgres"), autocommit=True) as connection:
        # The claim stays in memory until something else is committed.
        connection.execute("alter system set wal_writer_delay = '10s'")
        connection.execute("select pg_reload_conf()")
    with pipeline_on(own_server.url(), tmp_path) as pipeline:
        (document,) = pipeline.add_site("a", documents=1)
        pipeline.plan_item("ocr", document, "wait:gate", "ok")
        worker = pipeline.worker("ocr", concurrency=1, options=_NO_POLLING)
        until(lambda: worker.has_logged("Starting worker"), "the worker waits for jobs")
        run = pipeline.start_run("a", first_phase=2)
        until(lambda: pipeline.steps("wait:gate"), "at work")
        _immediate(own_server)
        own_server.start()
        pipeline.reconnect()
        was_lost = pipeline.scalar("select status = 'todo' from procrastinate_jobs where queue_name = 'ocr'")
        pipeline.open_gate("gate")
        pipeline.worker()
        assert pipeline.wait_for_end(run) == "succeeded"
        assert was_lost, "the claim was not written before the crash"
        until(lambda: len(pipeline.ignored_results("fenced")) == 1, "the late result was rejected")
        assert pipeline.counters("ocr", "a") == (1, 1, 0)
        pipeline.check_invariants()


def test_a_site_deleted_under_a_batch(pipeline: Pipeline) -> None:
    _, (_, run_b) = _start(pipeline, "a", "b", documents=2)
    worker = pipeline.worker(concurrency=4, options=_NO_POLLING)
    until(lambda: len(pipeline.steps("wait:gate")) == 4, "all at work")
    pipeline.connection.execute("update sites set run_id = null where subdomain = 'a'")
    pipeline.connection.execute("delete from content_items where subdomain = 'a'")
    pipeline.connection.execute("delete from pipeline_runs where subdomain = 'a'")
    pipeline.connection.execute("delete from sites where subdomain = 'a'")
    pipeline.open_gate("gate")
    assert pipeline.wait_for_end(run_b) == "succeeded"
    until(lambda: len(pipeline.ignored_results("stale")) == 2, "the results of the deleted site are ignored")
    assert worker.is_alive()
    pipeline.check_invariants()


@pytest.fixture
def manager_app(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> ClerkApp:
    monkeypatch.setenv("DATABASE_URL", pipeline.url)
    return ClerkApp()


def test_an_unforeseen_error_leaves_no_job_waiting_for_its_batch(
    pipeline: Pipeline, manager_app: ClerkApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that is not the database's reaches every job of the batch, and the next batch is sent."""
    pipeline.add_site("a", documents=3)
    pipeline.start_run("a", first_phase=2)
    started: list[jobs.Job] = []

    async def scenario() -> None:
        async with manager_app.open_async() as app:
            manager = app.job_manager
            assert isinstance(manager, ClerkJobManager)
            completer = BatchCompleter(manager, await manager.register_worker(), ["ocr"], 5, started.append)
            await completer.fetch()

            async def fail(*_: object) -> None:
                raise ZeroDivisionError

            with monkeypatch.context() as broken:
                broken.setattr(manager, "finish_and_fetch_jobs", fail)
                results = await asyncio.gather(*(completer.finish(job) for job in started), return_exceptions=True)
                assert [type(result) for result in results] == [ZeroDivisionError] * 3
            await asyncio.gather(*(completer.finish(job) for job in started))

    asyncio.run(scenario())
    assert pipeline.counters("ocr", "a") == (3, 3, 0)


def test_a_lock_that_another_worker_takes_at_the_same_time(pipeline: Pipeline, manager_app: ClerkApp) -> None:
    """The fetch meets Procrastinate's unique index on locks. It is repeated, and the other jobs are fetched."""
    insert = (
        "insert into procrastinate_jobs (queue_name, task_name, lock, priority)"
        " values ('ocr', 'x', %s, %s) returning id"
    )
    first = pipeline.scalar(insert, "lock", 0)
    started: list[jobs.Job] = []

    async def scenario(other: psycopg.Connection) -> None:
        async with manager_app.open_async() as app:
            manager = app.job_manager
            assert isinstance(manager, ClerkJobManager)
            # Another worker claims the job with the lock, and has not committed when this one sees a job with the same
            # lock and a higher priority.
            other.execute("update procrastinate_jobs set status = 'doing' where id = %s", [first])
            pipeline.connection.execute(insert.encode(), ["lock", 5])
            without_lock = pipeline.scalar(insert, None, 0)
            completer = BatchCompleter(manager, await manager.register_worker(), ["ocr"], 5, started.append)
            fetching = asyncio.create_task(completer.fetch())
            waiting = (
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
                " and query like '%clerk_finish_and_fetch%'"
            )
            while not pipeline.scalar(waiting) and not fetching.done():
                await asyncio.sleep(0.01)
            other.commit()
            await fetching
            assert [job.id for job in started] == [without_lock]

    with psycopg.connect(pipeline.url) as other:
        asyncio.run(scenario(other))
