"""Workers, commands and dashboard through PgBouncer in transaction mode, with CLERK_DIRECT_DATABASE_URL."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from clerk.cli import cli
from clerk.db.migrations.migrate import _LOCK_KEY as MIGRATION_LOCK
from clerk.monitoring.status import read_queues
from clerk.pipeline import engine
from clerk.pipeline.engine import QUEUES
from clerk.reconcile import apply
from clerk.web.db import ReadOnlyPool
from tests.faults.pipeline import ROOT, Pipeline, Worker, until
from tests.pgbouncer import PgBouncer, needs_pgbouncer, running

pytestmark = needs_pgbouncer
_POOL_SIZE = 2
_NEVER = "1000000"
"""Seconds between polls: a worker that starts a job was notified of it."""


@dataclass
class Pooled:
    """The pipeline, with workers that use the pool. It has fewer sessions than one worker has connections."""

    pipeline: Pipeline
    bouncer: PgBouncer

    def worker(self, *queues: str, concurrency: int = 1, options: tuple[str, ...] = ()) -> Worker:
        return self.pipeline.worker(
            *queues,
            url=self.bouncer.url,
            concurrency=concurrency,
            options=options,
            variables={
                "CLERK_DIRECT_DATABASE_URL": self.pipeline.url,
                "STORAGE_DIR": str(self.pipeline.folder / "storage"),
            },
        )

    def wait_for_listener(self, worker: Worker) -> None:
        """Wait until the worker listens for the jobs of every queue."""
        query = "select count(*) from pg_stat_activity where application_name ~ %s and query ilike %s"
        values = (f" clerk {worker.pid} ", f"listen%{QUEUES[-1]}%")
        until(lambda: self.pipeline.scalar(query, *values), "the listener")

    def settings_in_pool(self) -> set[tuple[str, ...]]:
        """What other clients of the pool find in its sessions."""
        query = (
            "select current_setting('search_path'), current_setting('statement_timeout'),"
            " coalesce(current_setting('clerk.via', true), '')"
        )
        with contextlib.ExitStack() as stack:
            rows = []
            for _ in range(_POOL_SIZE):
                client = stack.enter_context(psycopg.connect(self.bouncer.url, autocommit=True))
                stack.enter_context(client.transaction())  # until all have one
                rows.append(client.execute(query).fetchone() or ())
            return set(rows)


@pytest.fixture
def pooled(pipeline: Pipeline, tmp_path: Path) -> Iterator[Pooled]:
    with running(pipeline.url, tmp_path, default_pool_size=_POOL_SIZE) as bouncer:
        yield Pooled(pipeline, bouncer)


def test_two_workers_share_the_sessions_of_a_pool(pooled: Pooled) -> None:
    """Every claim has the name of the process that ran its job. Workers do not poll: notifications arrive."""
    pipeline = pooled.pipeline
    documents = pipeline.add_site(documents=12)
    pipeline.set_plan(ocr="pages:..,query,transaction")
    pipeline.open_gate("restarted-0")
    workers = [pooled.worker(concurrency=3, options=(f"--fetch-job-polling-interval={_NEVER}",)) for _ in range(2)]
    for worker in workers:
        pooled.wait_for_listener(worker)
    run = pipeline.start_run(first_phase=2)
    assert pipeline.wait_for_end(run) == "succeeded"
    pipeline.check_invariants()

    processes = {step.job: step.pid for step in pipeline.steps("done")}
    claims = pipeline.rows("select job_id, split_part(holder, ' ', 3)::int, settled_by = holder from job_claims")
    assert {(job, pid, mine) for job, pid, mine in claims if job in processes} == {
        (job, pid, True) for job, pid in processes.items()
    }
    assert len(pipeline.steps("page")) == 2 * len(documents)
    sessions = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    assert pipeline.scalar(sessions) <= _POOL_SIZE + len(workers)
    assert pipeline.ignored_results("fenced") == []

    assert engine.defer_reconciliation(pipeline.connection)
    reconciled = "select count(*) from procrastinate_jobs where task_name = 'clerk.reconcile' and status = 'succeeded'"
    until(lambda: pipeline.scalar(reconciled), "the reconciliation")
    assert pooled.settings_in_pool() == {('"$user", public', "0", "")}
    for worker in workers:
        assert worker.stop() == 0
        assert not worker.has_logged("transient database error")


def test_a_killed_worker_is_rescued(pooled: Pooled) -> None:
    pipeline = pooled.pipeline
    document, other = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", document, "pages:.|", "ok")
    run = pipeline.start_run(first_phase=2)
    killed = pooled.worker("ocr")
    until(lambda: pipeline.steps("page", item=document), "the first page")
    killed.kill()
    pipeline.expire_leases(pipeline.job_id("ocr", document))
    with psycopg.connect(pooled.bouncer.url, autocommit=True, prepare_threshold=None) as connection:
        assert apply.rescue_expired(connection) == 1
    pooled.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.ledger("ocr", document) == ("processed", None, 2)
    assert pipeline.ledger("ocr", other) == ("processed", None, 1)
    pipeline.check_invariants()


def test_the_result_of_a_thawed_worker_is_rejected(pooled: Pooled) -> None:
    """Its connections use the same sessions as those of its successor."""
    pipeline = pooled.pipeline
    (document,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", document, "wait:thawed", "wait:successor")
    run = pipeline.start_run(first_phase=2)
    zombie = pooled.worker("ocr")
    until(lambda: pipeline.steps("wait:thawed"), "the first attempt")
    zombie.freeze()
    job = pipeline.job_id("ocr", document)
    pipeline.expire_leases(job)
    assert pipeline.rescue() == 1
    successor = pooled.worker()
    until(lambda: pipeline.steps("wait:successor"), "the second attempt")

    pipeline.open_gate("thawed")
    zombie.thaw()
    until(lambda: pipeline.ignored_results("fenced") == [(job, 0)], "the fenced result")
    assert pipeline.scalar("select split_part(holder, ' ', 3)::int from ignored_results") == zombie.pid
    assert pipeline.job_status(job) == "doing"
    assert pipeline.ledger("ocr", document)[0] == "in_progress"
    assert pipeline.scalar("select split_part(holder, ' ', 3)::int from job_claims where job_id = %s", job) == (
        successor.pid
    )
    assert zombie.is_alive()

    pipeline.open_gate("successor")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.ledger("ocr", document) == ("processed", None, 2)
    pipeline.check_invariants()


def test_a_restart_of_the_pooler_costs_no_result(pooled: Pooled) -> None:
    pipeline = pooled.pipeline
    documents = pipeline.add_site(documents=30)
    pipeline.set_plan(ocr="pages:...")
    run = pipeline.start_run(first_phase=2)
    worker = pooled.worker(concurrency=4)
    until(lambda: pipeline.counters("ocr")[1] >= 5, "results before the restart")
    pooled.bouncer.kill()
    until(lambda: worker.has_logged("transient database error"), "a statement during the outage")
    pooled.bouncer.start()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.counters("ocr") == (len(documents), len(documents), 0)
    assert worker.is_alive()
    pipeline.check_invariants()


def test_commands_use_the_direct_url(pooled: Pooled, new_database: Callable[[], str], tmp_path: Path) -> None:
    """Migrations need a session lock: without the direct URL they are refused, with it the lock is not in the pool."""
    database = new_database()
    with running(database, tmp_path) as bouncer:

        def clerk(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "DATABASE_URL": bouncer.url, **variables}
            return subprocess.run(
                [sys.executable, "-m", "clerk", *arguments], env=environment, capture_output=True, text=True
            )

        refused = clerk("db", "up")
        assert refused.returncode == 1
        assert "set CLERK_DIRECT_DATABASE_URL to the address of the Postgres server itself" in refused.stderr
        assert "Traceback" not in refused.stderr
        migrated = clerk("db", "up", CLERK_DIRECT_DATABASE_URL=database)
        assert migrated.returncode == 0, migrated.stderr
        with psycopg.connect(database, autocommit=True) as connection:
            lock = connection.execute("select pg_try_advisory_lock(%s)", [MIGRATION_LOCK]).fetchone()
        assert lock == (True,)
        variables = {"DATABASE_URL": bouncer.url, "CLERK_DIRECT_DATABASE_URL": database}
        assert CliRunner(env=variables).invoke(cli, ["db", "url"]).stdout.strip() == database


def test_dashboard_queries_are_not_prepared(pooled: Pooled) -> None:
    """After five executions psycopg would prepare them, in a session that the next transaction may not have."""
    url = pooled.bouncer.url
    with ReadOnlyPool(url, is_pooled=True) as pool, psycopg.connect(url, autocommit=True) as other:
        for _ in range(6):
            with pool.transaction() as connection:
                read_queues(connection)
        # PgBouncer gives it the session that was used last.
        with other.transaction():
            other.execute("select 1")
            with pool.transaction() as connection:
                read_queues(connection)
