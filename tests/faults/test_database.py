"""Scenario 13: database outages, and lost requests and responses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from procrastinate import jobs

from clerk.app import ClerkApp
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.pipeline.completer import BatchCompleter
from clerk.pipeline.connector import ClerkConnector
from clerk.pipeline.job_manager import ClerkJobManager, attempt_of
from clerk.pipeline.worker import EX_TEMPFAIL
from tests.conftest import NO_FSYNC, running
from tests.faults.pipeline import Pipeline, pipeline_on, until
from tests.faults.proxy import Proxy

_FINISH = b"procrastinate_finish_job_v1"
_RETRY = b"procrastinate_retry_job_v2"
_EXCHANGE = b"clerk_finish_and_fetch_jobs"
_NO_POLLING = ("--fetch-job-polling-interval=600",)


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    proxy = Proxy(database)
    yield proxy
    proxy.close()


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory, folder: SqlFolder) -> Iterator[Server]:
    """A server that the test may stop."""
    # Committed data must survive a crash of the server.
    server = Server(tmp_path_factory.mktemp("own") / "postgres", options={**NO_FSYNC, "synchronous_commit": "on"})
    with running(server):
        server.create_database()
        with connect_to(server.url()) as connection:
            Migrator(connection, folder).up()
        yield server


def _fast(server: Server) -> None:
    server.stop()


def _immediate(server: Server) -> None:
    """Like a crash: sessions are closed, and the server recovers from its log."""
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)

    def has_exited() -> bool:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return server.pid is None

    until(has_exited, "the end of the server")


@pytest.mark.parametrize("stop", [_fast, _immediate])
def test_workers_survive_a_server_restart(own_server: Server, tmp_path: Path, stop: Callable[[Server], None]) -> None:
    """Jobs that ended during the outage are settled afterwards. No worker exits, and no job is repeated."""
    with pipeline_on(own_server.url(), tmp_path) as pipeline:
        ended, failed, running, *waiting = pipeline.add_site(documents=8)
        pipeline.plan_item("ocr", ended, "wait:down")
        pipeline.plan_item("ocr", failed, "wait:down,transient", "ok")
        pipeline.plan_item("ocr", running, "wait:up")
        run = pipeline.start_run()
        workers = [pipeline.worker("ocr", concurrency=3), pipeline.worker()]
        # The second worker processes the waiting ones, and is idle when the server stops.
        until(lambda: pipeline.counters("ocr") == (8, 5, 0), "five done, three at work")
        until(lambda: pipeline.is_running("ocr", running), "the last of them fetched")

        stop(own_server)
        for worker in workers:
            until(lambda worker=worker: worker.has_logged("transient database error"), "the workers noticed")  # type: ignore[misc]
        pipeline.open_gate("down")
        until(lambda: pipeline.steps("done", item=ended), "the end of a job during the outage")
        own_server.start()

        pipeline.reconnect()
        pipeline.open_gate("up")
        assert pipeline.wait_for_end(run) == "succeeded"
        assert [worker.is_alive() for worker in workers] == [True, True]
        assert pipeline.ledger("ocr", ended) == ("processed", None, 1)
        assert pipeline.ledger("ocr", failed) == ("processed", None, 2)
        assert pipeline.ledger("ocr", running) == ("processed", None, 1)
        for item in (ended, running, *waiting):
            assert len(pipeline.steps("done", stage="ocr", item=item)) == 1
        assert pipeline.ignored_results("fenced") == []
        pipeline.check_invariants()
        assert [worker.stop() for worker in workers] == [0, 0]


def test_worker_exits_after_a_long_outage(own_server: Server, tmp_path: Path) -> None:
    with pipeline_on(own_server.url(), tmp_path) as pipeline:
        worker = pipeline.worker(db_timeout=0.5)
        # The watchdog runs when the worker's loop has started.
        until(lambda: worker.has_logged("Starting worker"), "the worker at work")
        own_server.stop()
        assert worker.wait() == EX_TEMPFAIL


def test_worker_exits_if_its_start_hangs(pipeline: Pipeline) -> None:
    """Before the watchdog runs: the table that it reads first is locked."""
    with pipeline.connection.transaction():
        pipeline.connection.execute("lock table stage_policy")
        assert pipeline.worker(startup_timeout=0.5).wait() == EX_TEMPFAIL


@pytest.mark.parametrize("lost", ["request", "response"])
def test_finish_is_lost(pipeline: Pipeline, proxy: Proxy, lost: str) -> None:
    """It is sent again. If the first was committed, the second is rejected and recognised as the worker's own."""
    succeeding, failing = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", succeeding, "wait:cut")
    pipeline.plan_item("ocr", failing, "wait:cut,permanent")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker("ocr", url=proxy.url, concurrency=2, options=_NO_POLLING)
    until(lambda: pipeline.steps("wait:cut") and pipeline.steps("wait:cut,permanent"), "both at work")
    lose = proxy.lose_request if lost == "request" else proxy.lose_response
    cuts = [lose(_EXCHANGE), lose(_FINISH)]
    pipeline.open_gate("cut")
    until(lambda: pipeline.counters("ocr") == (2, 1, 1), "both counted")
    until(lambda: all(cut.done.is_set() for cut in cuts), "the losses")
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "partial"
    assert worker.is_alive()
    assert pipeline.ignored_results("fenced") == []
    assert pipeline.ledger("ocr", failing) == ("failed_terminal", "PdfEncrypted", 1)
    assert worker.stop() == 0
    pipeline.check_invariants()


@pytest.mark.parametrize("lost", ["request", "response"])
def test_retry_is_lost(pipeline: Pipeline, proxy: Proxy, lost: str) -> None:
    """It is sent again, and does not count as another failure."""
    (flaky,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", flaky, "transient", "ok")
    run = pipeline.start_run(first_phase=2)
    cut = proxy.lose_request(_RETRY) if lost == "request" else proxy.lose_response(_RETRY)
    worker = pipeline.worker("ocr", url=proxy.url)
    until(lambda: pipeline.counters("ocr") == (1, 1, 0), "counted")
    until(cut.done.is_set, "the loss")
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.ledger("ocr", flaky) == ("processed", None, 2)
    assert pipeline.ignored_results("fenced") == []
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_retry_of_a_job_that_was_asked_to_stop_is_lost(pipeline: Pipeline, proxy: Proxy) -> None:
    """Procrastinate then fails the job: that result is the worker's own too."""
    stopped, _ = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", stopped, "wait:cancelled,transient")
    run = pipeline.start_run(first_phase=2)
    cut = proxy.lose_response(_RETRY)
    pipeline.worker("ocr", url=proxy.url)
    until(lambda: pipeline.steps("wait:cancelled,transient"), "at work")
    pipeline.connection.execute(
        "select procrastinate_cancel_job_v1(%s, true, false)", [pipeline.job_id("ocr", stopped)]
    )
    pipeline.open_gate("cancelled")
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "partial"
    until(cut.done.is_set, "the loss")
    assert pipeline.ledger("ocr", stopped) == ("failed_terminal", "DownloadFailed", 1)
    assert pipeline.ignored_results("fenced") == []
    pipeline.check_invariants()


@pytest.mark.parametrize("concurrency", [1, 3])
def test_response_to_a_fetch_is_lost(pipeline: Pipeline, proxy: Proxy, concurrency: int) -> None:
    """The worker finds the job that it claimed, and runs it at its first attempt."""
    documents = pipeline.add_site(documents=3)
    cut = proxy.lose_response(_EXCHANGE, b"clerk.ocr")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker("ocr", url=proxy.url, concurrency=concurrency)
    until(lambda: pipeline.counters("ocr") == (3, 3, 0), "all counted")
    until(cut.done.is_set, "the loss")
    for document in documents:
        assert pipeline.ledger("ocr", document) == ("processed", None, 1)
        assert len(pipeline.steps("done", item=document)) == 1
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_job_that_ends_during_the_query_for_lost_jobs_is_not_repeated(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query's result has the job as running, but it has ended when the worker receives the result."""
    monkeypatch.setenv("DATABASE_URL", pipeline.url)
    pipeline.add_site(documents=1)
    pipeline.start_run(first_phase=2)
    started: list[jobs.Job] = []

    async def scenario() -> None:
        async with ClerkApp().open_async() as app:
            manager, connector = app.job_manager, app.connector
            assert isinstance(connector, ClerkConnector)
            assert isinstance(manager, ClerkJobManager)
            completer = BatchCompleter(manager, await manager.register_worker(), ["ocr"], 2, started.append)
            await completer.fetch()
            (job,) = started
            claimed_jobs = manager.claimed_jobs

            async def finish_during_query(worker_id: int) -> list[jobs.Job]:
                found = await claimed_jobs(worker_id)
                await manager.finish_job(job, jobs.Status.SUCCEEDED, delete_job=False)
                completer.release_slot(attempt_of(job))
                return found

            monkeypatch.setattr(manager, "claimed_jobs", finish_during_query)
            connector.unknown_outcomes += 1
            await completer.fetch()
            assert started == [job]

    asyncio.run(scenario())
    pipeline.worker()
    assert pipeline.wait_for_end(1) == "succeeded"
    pipeline.check_invariants()


def test_responses_to_a_coordinators_fetch_and_finish_are_lost(pipeline: Pipeline, proxy: Proxy) -> None:
    pipeline.add_site(documents=1)
    run = pipeline.start_run(first_phase=2)
    fetch = proxy.lose_response(_EXCHANGE, b"clerk.coordinate")
    worker = pipeline.worker(url=proxy.url)
    until(fetch.done.is_set, "the coordinator fetched")
    finish = proxy.lose_response(_EXCHANGE, b"succeeded")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert finish.done.is_set()
    assert pipeline.scalar("select max(attempts) from procrastinate_jobs where queue_name = 'coordinator'") == 1
    assert worker.stop() == 0
    pipeline.check_invariants()


def _sessions_in_finish(pipeline: Pipeline) -> list[int]:
    """Sessions that wait for a lock in finish."""
    query = (
        "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        " and query like '%clerk_finish_jobs%'"
    )
    return [pid for (pid,) in pipeline.rows(query)]


def test_session_is_terminated_during_finish(pipeline: Pipeline) -> None:
    """Its changes of job, claim and ledger are rolled back, and made again."""
    pipeline.add_site(documents=2)
    run = pipeline.start_run(first_phase=2)
    with psycopg.connect(pipeline.url) as holder:
        holder.execute("select from sites for update")
        worker = pipeline.worker("ocr", concurrency=2)
        for session in until(lambda: _sessions_in_finish(pipeline), "a session in finish"):
            pipeline.connection.execute("select pg_terminate_backend(%s)", [session])
        until(lambda: worker.has_logged("transient database error"), "the worker noticed")
        assert pipeline.counters("ocr") == (2, 0, 0)
    until(lambda: pipeline.counters("ocr") == (2, 2, 0), "both counted")
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert worker.is_alive()
    assert pipeline.ignored_results("fenced") == []
    pipeline.check_invariants()


def test_lock_timeouts_are_retried(pipeline: Pipeline) -> None:
    """With lock_timeout set on the database: at finish and when the coordinator advances the phase."""
    pipeline.add_site(documents=2)
    run = pipeline.start_run(first_phase=2)
    name = pipeline.scalar("select current_database()")
    pipeline.connection.execute(
        psycopg.sql.SQL("alter database {} set lock_timeout = '20ms'").format(psycopg.sql.Identifier(name))
    )
    with psycopg.connect(pipeline.url) as holder:
        holder.execute("set lock_timeout = 0")
        holder.execute("select from sites for update")
        worker = pipeline.worker(concurrency=2)
        until(lambda: worker.has_logged("lock timeout"), "finish timed out")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert worker.is_alive()
    pipeline.check_invariants()


def _listeners(pipeline: Pipeline) -> list[int]:
    query = "select pid from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
    return [pid for (pid,) in pipeline.rows(query)]


def test_listener_loses_its_session(pipeline: Pipeline) -> None:
    """It reconnects. The worker does not poll here, so only a notification can start the work."""
    pipeline.add_site(documents=2)
    worker = pipeline.worker(options=("--fetch-job-polling-interval=600",))
    (old,) = until(lambda: _listeners(pipeline), "the listener")
    pipeline.connection.execute("select pg_terminate_backend(%s)", [old])
    until(lambda: _listeners(pipeline) not in ([], [old]), "another listener")
    assert pipeline.wait_for_end(pipeline.start_run()) == "succeeded"
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_an_idle_listener_counts_as_alive(database: str) -> None:
    """Otherwise idle workers would exit. A listener whose session ended raises."""

    async def on_notification(**_: object) -> None:
        raise AssertionError("no notification was sent")

    async def scenario() -> None:
        connector = ClerkConnector()
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            listener = asyncio.create_task(connector._loop_notify(on_notification, connection, timeout=0.02))
            times = {connector.listener_alive_at}
            async with asyncio.timeout(30):
                while len(times) < 4:
                    await asyncio.sleep(0.005)
                    times.add(connector.listener_alive_at)
            with psycopg.connect(database, autocommit=True) as other:
                other.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
            with pytest.raises(psycopg.OperationalError):
                await listener

    asyncio.run(scenario())


def test_server_restart_under_an_idle_worker_costs_no_attempt(own_server: Server, tmp_path: Path) -> None:
    """Issue 13: the pool of the tasks had connections to the old server, and each failed one attempt."""
    with pipeline_on(own_server.url(), tmp_path) as pipeline:
        pipeline.add_site(documents=4)
        pipeline.set_plan(ocr="query,wait:used,query")
        run = pipeline.start_run(first_phase=2)
        worker = pipeline.worker("ocr", concurrency=4)
        other = pipeline.worker("compilation", "extraction", "deploy", "coordinator")
        until(lambda: len(pipeline.steps("query,wait:used,query")) == 4, "four tasks with a connection each")
        pipeline.open_gate("used")
        assert pipeline.wait_for_end(run) == "succeeded"

        own_server.stop()
        own_server.start()
        pipeline.reconnect()
        new = pipeline.add_documents("anytown", 4, since="2025-01-01")
        run = pipeline.start_run(first_phase=2)
        assert pipeline.wait_for_end(run) == "succeeded"
        for document in new:
            assert pipeline.ledger("ocr", document) == ("processed", None, 1)
            assert {step.attempt for step in pipeline.steps(item=document, stage="ocr")} == {0}
        assert worker.stop() == other.stop() == 0
        pipeline.check_invariants()


def test_broken_idle_connections_are_replaced_without_a_pause(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """psycopg_pool's own check waits 1, 2, 4, 8 and 16 seconds after broken connections, and gives up after 30."""
    monkeypatch.setenv("DATABASE_URL", database)
    connector = ClerkConnector()
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connector.connection()) for _ in range(10)]
        backends = [connection.info.backend_pid for connection in connections]
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("select pg_terminate_backend(pid) from unnest(%s::int[]) pid", [backends])
        alive = "select count(*) from pg_stat_activity where pid = any(%s)"
        until(lambda: admin.execute(alive, [backends]).fetchone() == (0,), "the end of the sessions")
    with connector.connection() as connection:
        assert connection.info.backend_pid not in backends
    asyncio.run(connector.close_async())


def test_server_restart_during_a_tasks_query_does_not_count(own_server: Server, tmp_path: Path) -> None:
    """Four restarts, and a stage that allows three attempts."""
    with pipeline_on(own_server.url(), tmp_path) as pipeline:
        (document,) = pipeline.add_site(documents=1)
        pipeline.plan_item("ocr", document, *["transaction"] * 4, "ok")
        run = pipeline.start_run(first_phase=2)
        worker = pipeline.worker()
        for number in range(1, 5):
            until(lambda number=number: len(pipeline.steps("in transaction")) == number, "a transaction")  # type: ignore[misc]
            own_server.stop()
            own_server.start()
            pipeline.reconnect()
            pipeline.open_gate(f"restarted-{number - 1}")
        assert pipeline.wait_for_end(run) == "succeeded"
        assert worker.is_alive()
        assert pipeline.ledger("ocr", document) == ("processed", None, 1)
        assert [step.attempt for step in pipeline.steps("done", item=document, stage="ocr")] == [4]
        pipeline.check_invariants()


def test_only_the_documents_own_errors_count(pipeline: Pipeline) -> None:
    """Seven attempts with errors of the database in between: the third error of the document is the last."""
    (document, other) = pipeline.add_site(documents=2)
    full, invalid = "sqlstate:53100", "sqlstate:22023"
    pipeline.plan_item("ocr", document, full, invalid, full, full, invalid, full, invalid)
    pipeline.plan_item("ocr", other, *[full] * 5, "ok")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker()
    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.ledger("ocr", document) == ("failed_terminal", "UnexpectedError", 3)
    assert len(pipeline.steps(item=document, stage="ocr")) == 7
    assert pipeline.ledger("ocr", other) == ("processed", None, 1)
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_error_of_the_database_has_its_own_code(pipeline: Pipeline) -> None:
    """It is retried, not failed, and the ledger names the database."""
    (document,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", document, "sqlstate:53100", "wait:seen")
    run = pipeline.start_run(first_phase=2)
    pipeline.worker()
    until(lambda: pipeline.steps("wait:seen"), "the second attempt")
    code, message = pipeline.rows(
        "select error_code, error_message from content_item_pipeline_state where pipeline = 'ocr'"
    )[0]
    assert code == "DatabaseFailed"
    assert message.startswith("DiskFull: planned")
    pipeline.open_gate("seen")
    assert pipeline.wait_for_end(run) == "succeeded"
    pipeline.check_invariants()


def test_rescue_counts_and_errors_of_the_database_do_not(pipeline: Pipeline) -> None:
    """A document that kills its worker fails after three of these attempts, whatever happened in between."""
    (document,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", document, "kill", *["sqlstate:57P01"] * 3, "kill", "sqlstate:57P01", "kill")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker()

    def restart_worker() -> str | None:
        nonlocal worker
        if not worker.is_alive():
            pipeline.expire_leases(pipeline.job_id("ocr", document))
            pipeline.rescue()
            worker = pipeline.worker()
        return pipeline.outcome(run)

    assert until(restart_worker, "the end of the run") == "failed"
    assert pipeline.ledger("ocr", document) == ("failed_terminal", "WorkerLost", 3)
    assert len(pipeline.steps(item=document, stage="ocr")) == 7
    pipeline.check_invariants()


def test_errors_of_the_database_do_not_count_for_coordinators(pipeline: Pipeline) -> None:
    """Eleven errors, and ten attempts."""
    pipeline.add_site(documents=1)
    pipeline.plan_item("coordinate", 2, *["sqlstate:57P01"] * 11, "ok")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker()

    def outcome() -> str | None:
        pipeline.clear_schedule("clerk.coordinate")
        return pipeline.outcome(run)

    assert until(outcome, "the end of the run") == "succeeded"
    assert len(pipeline.steps("sqlstate:57P01")) == 11
    assert worker.stop() == 0
    pipeline.check_invariants()


_DEADLINES = (1.0, 3.0)


def test_response_to_a_finish_never_arrives(pipeline: Pipeline, proxy: Proxy) -> None:
    """The connection stays open, so only the deadline of the statement ends the wait."""
    succeeding, failing = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", succeeding, "wait:cut")
    pipeline.plan_item("ocr", failing, "wait:cut,permanent")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker("ocr", url=proxy.url, concurrency=2, options=_NO_POLLING, deadlines=_DEADLINES)
    until(lambda: pipeline.steps("wait:cut") and pipeline.steps("wait:cut,permanent"), "both at work")
    holes = [proxy.black_hole(_EXCHANGE), proxy.black_hole(_FINISH)]
    pipeline.open_gate("cut")
    until(lambda: worker.has_logged("within 1 s"), "the deadline")
    until(lambda: pipeline.counters("ocr") == (2, 1, 1), "both counted")
    assert all(hole.done.is_set() for hole in holes)
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.ignored_results("fenced") == []
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_response_to_a_fetch_never_arrives(pipeline: Pipeline, proxy: Proxy) -> None:
    """The jobs that were claimed with it are found and run, at their first attempt."""
    documents = pipeline.add_site(documents=2)
    worker = pipeline.worker("ocr", url=proxy.url, concurrency=2, deadlines=_DEADLINES)
    until(lambda: worker.has_logged("Starting worker"), "the worker at work")
    hole = proxy.black_hole(_EXCHANGE)
    until(hole.done.is_set, "a fetch without a response")
    run = pipeline.start_run(first_phase=2)
    until(lambda: pipeline.counters("ocr") == (2, 2, 0), "both counted")
    for document in documents:
        assert pipeline.ledger("ocr", document) == ("processed", None, 1)
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_response_to_a_tasks_query_never_arrives(pipeline: Pipeline, proxy: Proxy) -> None:
    """The attempt ends at the deadline and does not count."""
    (document,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", document, "query")
    run = pipeline.start_run(first_phase=2)
    hole = proxy.black_hole(b"query of a task")
    worker = pipeline.worker("ocr", url=proxy.url, deadlines=_DEADLINES)
    until(lambda: pipeline.counters("ocr") == (1, 1, 0), "counted")
    assert hole.done.is_set()
    assert pipeline.ledger("ocr", document) == ("processed", None, 1)
    assert [step.attempt for step in pipeline.steps("done", item=document)] == [1]
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert worker.stop() == 0
    pipeline.check_invariants()
