"""Scenario 13: the database goes away and comes back, and answers get lost on the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from procrastinate import jobs

from clerk.app import ClerkApp
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.pipeline.connector import ClerkConnector
from clerk.pipeline.worker import EX_TEMPFAIL
from tests.conftest import NO_FSYNC, running
from tests.faults.pipeline import Pipeline, pipeline_on, until
from tests.faults.proxy import Proxy

_FINISH = b"procrastinate_finish_job_v1"
_RETRY = b"procrastinate_retry_job_v2"
_FETCH = b"clerk_fetch_job"


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    proxy = Proxy(database)
    yield proxy
    proxy.close()


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory, folder: SqlFolder) -> Iterator[Server]:
    """A server that this test may stop."""
    # What was committed has to survive the end of the server's processes.
    server = Server(tmp_path_factory.mktemp("own") / "postgres", options={**NO_FSYNC, "synchronous_commit": "on"})
    with running(server):
        server.create_database()
        with connect_to(server.url()) as connection:
            Migrator(connection, folder).up()
        yield server


def _fast(server: Server) -> None:
    server.stop()


def _immediate(server: Server) -> None:
    """As a crash: sessions are dropped, and what was committed is recovered from the log."""
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)

    def is_gone() -> bool:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return server.pid is None

    until(is_gone, "the end of the server")


@pytest.mark.parametrize("stop", [_fast, _immediate])
def test_server_goes_away_and_comes_back(own_server: Server, tmp_path: Path, stop: Callable[[Server], None]) -> None:
    """Jobs that ended meanwhile, well or badly, are reported afterwards; nobody dies, and nothing is done twice."""
    with pipeline_on(own_server.url(), tmp_path) as pipeline:
        ended, failed, running, *waiting = pipeline.site(documents=8)
        pipeline.item("ocr", ended, "wait:down")
        pipeline.item("ocr", failed, "wait:down,transient", "ok")
        pipeline.item("ocr", running, "wait:up")
        run = pipeline.start()
        workers = [pipeline.worker("ocr", concurrency=3), pipeline.worker()]
        # The second worker does the waiting ones, and is idle when the server goes.
        until(lambda: pipeline.counters("ocr") == (8, 5, 0), "five done, three at work")
        until(lambda: pipeline.is_running("ocr", running), "the last of them fetched")

        stop(own_server)
        for worker in workers:
            until(lambda worker=worker: worker.said("did not answer"), "the workers noticed")  # type: ignore[misc]
        pipeline.open("down")
        until(lambda: pipeline.said("done", about=ended), "ended while the server was away")
        own_server.start()

        pipeline.reconnect()
        pipeline.open("up")
        assert pipeline.until_ended(run) == "succeeded"
        assert [worker.lives() for worker in workers] == [True, True]
        assert pipeline.ledger("ocr", ended) == ("processed", None, 1)
        assert pipeline.ledger("ocr", failed) == ("processed", None, 2)
        assert pipeline.ledger("ocr", running) == ("processed", None, 1)
        for item in (ended, running, *waiting):
            assert len(pipeline.said("done", stage="ocr", about=item)) == 1
        assert pipeline.ignored("fenced") == []
        pipeline.check()
        assert [worker.stop() for worker in workers] == [0, 0]


def test_worker_that_is_cut_off_for_good_ends_itself(own_server: Server, tmp_path: Path) -> None:
    with pipeline_on(own_server.url(), tmp_path) as pipeline:
        worker = pipeline.worker(db_timeout=0.5)
        # Not only registered: the watchdog is there when the loop is.
        until(lambda: worker.said("Starting worker"), "the worker at work")
        own_server.stop()
        assert worker.wait() == EX_TEMPFAIL


def test_worker_whose_start_hangs_ends_itself(pipeline: Pipeline) -> None:
    """Before there is a watchdog; here what it reads first is locked for good."""
    with pipeline.connection.transaction():
        pipeline.connection.execute("lock table stage_policy")
        assert pipeline.worker(startup_timeout=0.5).wait() == EX_TEMPFAIL


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_finish_is_lost(pipeline: Pipeline, proxy: Proxy, lost: str) -> None:
    """Sent again. If it had been committed, the second one is refused and recognised as our own."""
    _, failing = pipeline.site(documents=2)
    pipeline.item("ocr", failing, "permanent")
    run = pipeline.start(first_phase=2)
    cuts = [proxy.lose_request(_FINISH) if lost == "request" else proxy.lose_answer(_FINISH) for _ in range(2)]
    worker = pipeline.worker("ocr", url=proxy.url)
    until(lambda: pipeline.counters("ocr") == (2, 1, 1), "both counted")
    assert all(cut.done.is_set() for cut in cuts)
    pipeline.worker()
    assert pipeline.until_ended(run) == "partial"
    assert worker.lives()
    assert pipeline.ignored("fenced") == []
    assert pipeline.ledger("ocr", failing) == ("failed_terminal", "PdfEncrypted", 1)
    assert worker.stop() == 0
    pipeline.check()


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_retry_is_lost(pipeline: Pipeline, proxy: Proxy, lost: str) -> None:
    """Sent again, and not taken for another failure."""
    (shaky,) = pipeline.site(documents=1)
    pipeline.item("ocr", shaky, "transient", "ok")
    run = pipeline.start(first_phase=2)
    cut = proxy.lose_request(_RETRY) if lost == "request" else proxy.lose_answer(_RETRY)
    worker = pipeline.worker("ocr", url=proxy.url)
    until(lambda: pipeline.counters("ocr") == (1, 1, 0), "counted")
    assert cut.done.is_set()
    pipeline.worker()
    assert pipeline.until_ended(run) == "succeeded"
    assert pipeline.ledger("ocr", shaky) == ("processed", None, 2)
    assert pipeline.ignored("fenced") == []
    assert worker.stop() == 0
    pipeline.check()


def test_retry_of_a_job_that_was_asked_to_stop_is_lost(pipeline: Pipeline, proxy: Proxy) -> None:
    """Procrastinate makes a failure of it: that too is our own result."""
    stopped, _ = pipeline.site(documents=2)
    pipeline.item("ocr", stopped, "wait:asked,transient")
    run = pipeline.start(first_phase=2)
    cut = proxy.lose_answer(_RETRY)
    pipeline.worker("ocr", url=proxy.url)
    until(lambda: pipeline.said("wait:asked,transient"), "at work")
    pipeline.connection.execute("select procrastinate_cancel_job_v1(%s, true, false)", [pipeline.job("ocr", stopped)])
    pipeline.open("asked")
    pipeline.worker()
    assert pipeline.until_ended(run) == "partial"
    assert cut.done.is_set()
    assert pipeline.ledger("ocr", stopped) == ("failed_terminal", "ConnectionError", 1)
    assert pipeline.ignored("fenced") == []
    pipeline.check()


@pytest.mark.parametrize("concurrency", [1, 3])
def test_answer_to_a_fetch_is_lost(pipeline: Pipeline, proxy: Proxy, concurrency: int) -> None:
    """The job is ours without our knowing: it is asked for, and done at its first attempt."""
    documents = pipeline.site(documents=3)
    cut = proxy.lose_answer(_FETCH, b"clerk.ocr")
    run = pipeline.start(first_phase=2)
    worker = pipeline.worker("ocr", url=proxy.url, concurrency=concurrency)
    until(lambda: pipeline.counters("ocr") == (3, 3, 0), "all counted")
    assert cut.done.is_set()
    for document in documents:
        assert pipeline.ledger("ocr", document) == ("processed", None, 1)
        assert len(pipeline.said("done", about=document)) == 1
    pipeline.worker()
    assert pipeline.until_ended(run) == "succeeded"
    assert worker.stop() == 0
    pipeline.check()


def test_job_that_ends_while_we_ask_for_lost_ones_is_not_done_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row that is on its way to us says that it runs; when it arrives, the job has ended and is forgotten."""
    monkeypatch.setenv("DATABASE_URL", pipeline.url)
    pipeline.site(documents=1)
    pipeline.start(first_phase=2)

    async def scene() -> None:
        async with ClerkApp().open_async() as app:
            manager, connector = app.job_manager, app.connector
            assert isinstance(connector, ClerkConnector)
            worker = await manager.register_worker()
            job = await manager.fetch_job(["ocr"], worker)
            assert job is not None
            ask = connector.execute_query_all_async

            async def ask_slowly(query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
                rows = await ask(query, **arguments)
                await manager.finish_job(job, jobs.Status.SUCCEEDED, delete_job=False)
                return rows

            monkeypatch.setattr(connector, "execute_query_all_async", ask_slowly)
            connector.unknown_outcomes += 1
            assert await manager.fetch_job(["ocr"], worker) is None

    asyncio.run(scene())
    pipeline.worker()
    assert pipeline.until_ended(1) == "succeeded"
    pipeline.check()


def test_answer_to_a_coordinators_fetch_and_finish_is_lost(pipeline: Pipeline, proxy: Proxy) -> None:
    pipeline.site(documents=1)
    run = pipeline.start(first_phase=2)
    fetch = proxy.lose_answer(_FETCH, b"clerk.coordinate")
    worker = pipeline.worker(url=proxy.url)
    until(fetch.done.is_set, "the coordinator fetched")
    finish = proxy.lose_answer(_FINISH)
    assert pipeline.until_ended(run) == "succeeded"
    assert finish.done.is_set()
    assert pipeline.one("select max(attempts) from procrastinate_jobs where queue_name = 'coordinator'") == 1
    assert worker.stop() == 0
    pipeline.check()


def _in_mid_finish(pipeline: Pipeline) -> list[int]:
    """Sessions that wait for a lock inside of finish."""
    query = (
        "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        " and query like '%procrastinate_finish_job%'"
    )
    return [pid for (pid,) in pipeline.all(query)]


def test_session_is_ended_in_the_middle_of_finish(pipeline: Pipeline) -> None:
    """Job, claim and ledger are half written when the session dies: all of it is undone, and done again."""
    pipeline.site(documents=2)
    run = pipeline.start(first_phase=2)
    with psycopg.connect(pipeline.url) as holder:
        holder.execute("select from sites for update")
        worker = pipeline.worker("ocr", concurrency=2)
        until(lambda: len(_in_mid_finish(pipeline)) == 2, "two in mid-finish")
        for session in _in_mid_finish(pipeline):
            pipeline.connection.execute("select pg_terminate_backend(%s)", [session])
        until(lambda: worker.said("did not answer"), "the worker noticed")
        assert pipeline.counters("ocr") == (2, 0, 0)
    until(lambda: pipeline.counters("ocr") == (2, 2, 0), "both counted")
    pipeline.worker()
    assert pipeline.until_ended(run) == "succeeded"
    assert worker.lives()
    assert pipeline.ignored("fenced") == []
    pipeline.check()


def test_locks_that_take_too_long_are_waited_out(pipeline: Pipeline) -> None:
    """lock_timeout, set by a careful administrator, at finish and at the coordinator's advance."""
    pipeline.site(documents=2)
    run = pipeline.start(first_phase=2)
    name = pipeline.one("select current_database()")
    pipeline.connection.execute(
        psycopg.sql.SQL("alter database {} set lock_timeout = '20ms'").format(psycopg.sql.Identifier(name))
    )
    with psycopg.connect(pipeline.url) as holder:
        holder.execute("set lock_timeout = 0")
        holder.execute("select from sites for update")
        worker = pipeline.worker(concurrency=2)
        until(lambda: worker.said("lock timeout"), "finish timed out")
    assert pipeline.until_ended(run) == "succeeded"
    assert worker.lives()
    pipeline.check()


def _listeners(pipeline: Pipeline) -> list[int]:
    query = "select pid from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
    return [pid for (pid,) in pipeline.all(query)]


def test_listener_loses_its_session(pipeline: Pipeline) -> None:
    """It listens again: nothing polls here, so only a notification can start the work."""
    pipeline.site(documents=2)
    worker = pipeline.worker(options=("--fetch-job-polling-interval=600",))
    (old,) = until(lambda: _listeners(pipeline), "the listener")
    pipeline.connection.execute("select pg_terminate_backend(%s)", [old])
    until(lambda: _listeners(pipeline) not in ([], [old]), "another listener")
    assert pipeline.until_ended(pipeline.start()) == "succeeded"
    assert worker.stop() == 0
    pipeline.check()


def test_a_listener_that_has_nothing_to_hear_is_not_deaf(database: str) -> None:
    """Or every worker without work would take itself for cut off. One whose session is gone says so."""

    async def heard(**_: object) -> None:
        raise AssertionError("nobody spoke")

    async def listen() -> None:
        connector = ClerkConnector()
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            listening = asyncio.create_task(connector._loop_notify(heard, connection, timeout=0.02))
            times = {connector.listener_alive_at}
            async with asyncio.timeout(30):
                while len(times) < 4:
                    await asyncio.sleep(0.005)
                    times.add(connector.listener_alive_at)
            with psycopg.connect(database, autocommit=True) as other:
                other.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
            with pytest.raises(psycopg.OperationalError):
                await listening

    asyncio.run(listen())
