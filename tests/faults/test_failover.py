"""Failover to a standby: planned, by making the old primary read-only, and with a synchronous standby that stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from procrastinate import jobs

from clerk.app import ClerkApp
from clerk.errors import DatabaseUnreachable
from clerk.monitoring.alerts import find_alerts
from clerk.monitoring.status import read_status
from clerk.pipeline.completer import BatchCompleter
from clerk.pipeline.connector import ClerkConnector
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.web.db import ReadOnlyPool
from tests.faults.cluster import Cluster, Node, running_cluster
from tests.faults.pipeline import Pipeline, pipeline_on, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def url(cluster: Cluster) -> str:
    return cluster.create_database()


def test_switchover(cluster: Cluster, url: str, tmp_path: Path) -> None:
    """No worker exits, and no job is repeated, not even one with an open connection."""
    with pipeline_on(url, tmp_path) as pipeline:
        held, *others = pipeline.add_site(documents=12)
        pipeline.plan_item("ocr", held, "query,wait:switched,query")
        run = pipeline.start_run()
        workers = [pipeline.worker("ocr", concurrency=2), pipeline.worker(concurrency=2)]
        until(lambda: pipeline.counters("ocr") == (12, 11, 0), "all but one document")

        cluster.wait_for_standby()
        cluster.switch_over()
        pipeline.reconnect()
        pipeline.open_gate("switched")
        assert pipeline.wait_for_end(run) == "succeeded"

        assert [worker.is_alive() for worker in workers] == [True, True]
        for item in (held, *others):
            assert pipeline.ledger("ocr", item) == ("processed", None, 1)
            assert len(pipeline.steps("done", stage="ocr", item=item)) == 1
        assert pipeline.ignored_results("fenced") == []
        pipeline.check_invariants()
        assert [worker.stop() for worker in workers] == [0, 0]


def _sessions_of_workers(node: Node, database: str) -> int:
    query = "select count(*) from pg_stat_activity where datname = '{}' and application_name like '% clerk %'"
    ((count,),) = node.execute(query.format(database))
    return int(count)


@pytest.mark.usefixtures("only_with_long")
def test_no_connection_to_an_old_primary_that_became_read_only_is_kept(
    cluster: Cluster, url: str, tmp_path: Path
) -> None:
    """Its sessions stay open. The worker does not poll, so only a notification of the new primary starts the work."""
    with pipeline_on(url, tmp_path) as pipeline:
        database = str(pipeline.scalar("select current_database()"))
        pipeline.add_site(documents=2)
        pipeline.set_plan(ocr="query")
        worker = pipeline.worker(options=("--fetch-job-polling-interval=600",), concurrency=2)
        assert pipeline.wait_for_end(pipeline.start_run()) == "succeeded"

        cluster.wait_for_standby()
        old = cluster.primary
        old.set("default_transaction_read_only", "on")
        cluster.promote()
        try:
            until(lambda: _sessions_of_workers(old, database) == 0, "the end of the sessions")
            pipeline.reconnect()
            listening = "select 1 from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
            until(lambda: pipeline.rows(listening), "the listener at the new primary")
            new = pipeline.add_documents("anytown", 2, since="2025-01-01")
            assert pipeline.wait_for_end(pipeline.start_run(first_phase=2)) == "succeeded"
            for document in new:
                assert pipeline.ledger("ocr", document) == ("processed", None, 1)
            assert worker.stop() == 0
            pipeline.check_invariants()
        finally:
            old.stop()
            cluster.start_standby()


def test_dashboard_leaves_an_old_primary_that_became_read_only(cluster: Cluster, url: str) -> None:
    """Unless DATABASE_URL allows any server: a dashboard may read from a standby."""
    node = cluster.primary
    with ReadOnlyPool(url) as pool, ReadOnlyPool(node.url()) as any_server:
        for each in (pool, any_server):
            with each.transaction() as connection:
                assert connection.execute("select 1").fetchone() == (1,)
        node.set("default_transaction_read_only", "on")
        try:
            with any_server.transaction() as connection:
                assert connection.execute("select 1").fetchone() == (1,)
            with pytest.raises(DatabaseUnreachable), pool.transaction():
                pass
        finally:
            node.set("default_transaction_read_only", "off")

        def is_back() -> bool:
            with contextlib.suppress(DatabaseUnreachable), pool.transaction():
                return True
            return False

        until(is_back, "the dashboard")


def test_worker_that_starts_during_a_failover_waits(cluster: Cluster, url: str, tmp_path: Path) -> None:
    """Only a standby is left, and it is promoted later."""
    with pipeline_on(url, tmp_path) as pipeline:
        pipeline.add_site(documents=1)
        run = pipeline.start_run()
        cluster.wait_for_standby()
        cluster.primary.stop()
        # Without target_session_attrs.
        worker = pipeline.worker(url=url.partition("?")[0])
        until(lambda: worker.has_logged("session is read-only"), "the worker waits")
        cluster.promote()
        pipeline.reconnect()
        assert pipeline.wait_for_end(run) == "succeeded"
        assert worker.stop() == 0
        pipeline.check_invariants()
        cluster.standby.follow(cluster.primary)


@pytest.mark.usefixtures("only_with_long")
@pytest.mark.parametrize("end", ["the standby returns", "the setting is cleared"])
def test_synchronous_standby_stops(cluster: Cluster, url: str, tmp_path: Path, end: str) -> None:
    """Commits wait, longer than the worker waits for a database that does not respond. It waits too, with few sessions,
    and continues."""
    cluster.wait_for_standby()
    cluster.primary.set("synchronous_standby_names", "*")
    with pipeline_on(url, tmp_path) as pipeline:
        held, _ = pipeline.add_site(documents=2)
        pipeline.plan_item("ocr", held, "wait:stopped")
        run = pipeline.start_run()
        worker = pipeline.worker(
            concurrency=2, deadlines=(1.0, 60.0), db_timeout=3.0, variables={"CLERK_DATABASE_TIMEOUT": "3"}
        )
        until(lambda: pipeline.counters("ocr") == (2, 1, 0), "one document")
        cluster.standby.stop()
        pipeline.open_gate("stopped")
        until(lambda: worker.log.read_text().count("waits for a synchronous standby") >= 4, "the worker waits")
        (alert,) = [alert for alert in find_alerts(read_status(pipeline.connection)) if alert.kind == "standby_wait"]
        assert "no result can be recorded" in alert.what
        assert pipeline.scalar("select count(*) from pg_stat_activity where wait_event = 'SyncRep'") <= 2
        assert pipeline.counters("ocr") == (2, 1, 0)

        if end == "the setting is cleared":
            cluster.primary.set("synchronous_standby_names", "")
        cluster.standby.start()
        assert pipeline.wait_for_end(run) == "succeeded"
        cluster.primary.set("synchronous_standby_names", "")
        assert pipeline.ledger("ocr", held) == ("processed", None, 1)
        assert len(pipeline.steps("done", item=held, stage="ocr")) == 1
        assert pipeline.ignored_results("fenced") == []
        assert worker.stop() == 0
        pipeline.check_invariants()


_LOSE_CLAIM = """
set clerk.actor = 'test';
update procrastinate_jobs set status = 'todo', worker_id = null;
update content_item_pipeline_state set status = 'pending', attempt_count = 0 where pipeline = 'ocr';
delete from job_claims;
reset clerk.actor;
"""


@pytest.mark.parametrize("job", ["the same", "another with its id"])
def test_job_whose_claim_was_lost_is_claimed_again_by_the_worker_that_runs_it(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """A standby that lags has neither the claim nor, perhaps, the job: its sequence may issue the id again."""
    monkeypatch.setenv("DATABASE_URL", database)
    started: list[jobs.Job] = []

    async def scenario(pipeline: Pipeline) -> None:
        async with ClerkApp().open_async() as app:
            manager = app.job_manager
            assert isinstance(manager, ClerkJobManager)
            completer = BatchCompleter(manager, await manager.register_worker(), ["ocr"], 3, started.append)
            await completer.fetch()
            (first,) = started
            pipeline.connection.execute(_LOSE_CLAIM)
            if job == "another with its id":
                pipeline.connection.execute("update procrastinate_jobs set args = args || '{\"content_item_id\": 0}'")
            await completer.fetch()
            assert started == [first]
            await completer.finish(first)

    with pipeline_on(database, tmp_path) as pipeline:
        (document,) = pipeline.add_site(documents=1)
        pipeline.start_run(first_phase=2)
        asyncio.run(scenario(pipeline))
        if job == "the same":
            assert pipeline.ledger("ocr", document) == ("processed", None, 1)
            assert pipeline.ignored_results("fenced") == []
        else:
            # The result was rejected, and the worker has claimed the other job, under the next attempt number.
            assert len(pipeline.ignored_results("fenced")) == 1
            assert pipeline.rows("select status, attempts from procrastinate_jobs") == [("doing", 1)]
            assert [(started_job.id, started_job.attempts) for started_job in started] == [(1, 0), (1, 1)]


def test_tasks_connection_to_a_server_that_became_read_only_is_replaced(
    cluster: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At checkout, without a failed statement; and after one."""
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("CLERK_DATABASE_TIMEOUT", "5")
    connector = ClerkConnector()
    with connector.connection() as connection:
        pid = connection.info.backend_pid
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), connector.connection() as connection:
        connection.execute("set transaction_read_only = on; create table x ()")
    assert connection.closed
    with connector.connection() as connection:
        assert connection.info.backend_pid != pid
    cluster.primary.set("default_transaction_read_only", "on")
    try:
        with pytest.raises(psycopg.OperationalError, match="couldn't get a connection"), connector.connection():
            pass
    finally:
        cluster.primary.set("default_transaction_read_only", "off")
    with connector.connection() as connection:
        connection.execute("create table x ()")
    asyncio.run(connector.close_async())
