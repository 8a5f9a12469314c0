"""PgBouncer in front of the database: clerk detects the pool mode, and uses or refuses it as docs/runbooks/scaling.md
says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from clerk import config
from clerk.db import pooler
from clerk.db.connection import connect, connect_to, require_usable_pool
from clerk.errors import DatabaseRefused, DatabaseUnreachable
from clerk.pipeline.connector import ClerkConnector
from tests.faults.pipeline import Pipeline
from tests.pgbouncer import needs_pgbouncer, running

pytestmark = needs_pgbouncer
Bouncer = Callable[..., str]


@pytest.fixture
def bouncer(database: str, tmp_path: Path) -> Iterator[Bouncer]:
    """Call it with settings to change; returns the URL to use."""
    with contextlib.ExitStack() as stack:
        yield lambda **changed: stack.enter_context(running(database, tmp_path, **changed)).url


@pytest.fixture(autouse=True)
def _forget_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooler, "_urls_with_sessions", set())


def settings(pool: str, direct: str | None = None) -> config.Settings:
    return config.load({"DATABASE_URL": pool, "CLERK_DIRECT_DATABASE_URL": direct or ""})


def test_workers_work_through_session_pooling(bouncer: Bouncer, pipeline: Pipeline) -> None:
    url = bouncer(pool_mode="session", default_pool_size=200)
    pipeline.add_site(documents=5)
    worker = pipeline.worker(url=url)
    run = pipeline.start_run()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_a_task_gets_its_connection(bouncer: Bouncer, monkeypatch: pytest.MonkeyPatch) -> None:
    """PgBouncer 1.18 rejects a search_path in the startup options."""
    monkeypatch.setenv("DATABASE_URL", bouncer(pool_mode="session", default_pool_size=5))
    connector = ClerkConnector()
    with connector.connection() as connection:
        assert connection.execute("show search_path").fetchone() == ("public",)
    asyncio.run(connector.close_async())


# --- detection


def test_a_server_without_pooler_needs_no_second_connection(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooler, "_connect", None)
    with connect_to(database) as connection:
        assert connection.execute("show search_path").fetchone() == ("public",)


@pytest.mark.parametrize("pool_size", [1, 5])
def test_session_pooling_is_accepted(bouncer: Bouncer, monkeypatch: pytest.MonkeyPatch, pool_size: int) -> None:
    """With a pool of one, the second client waits, because the first one has the only session."""
    monkeypatch.setattr(pooler, "_SECOND_CLIENT_TIMEOUT", 0.2)
    with connect(settings(bouncer(pool_mode="session", default_pool_size=pool_size))) as connection:
        assert connection.execute("select from pg_listening_channels()").fetchone() is None


@pytest.mark.parametrize("changed", [{}, {"default_pool_size": 1}, {"server_round_robin": 1}])
def test_transaction_pooling_is_refused_without_a_direct_url(bouncer: Bouncer, changed: dict[str, object]) -> None:
    url = bouncer(pool_mode="transaction", **changed)
    problem = (
        r"pooler at postgresql://clerk@127\.0\.0\.1:\d+/clerk gives each transaction another session .*"
        " set CLERK_DIRECT_DATABASE_URL"
    )
    for _ in range(2):  # the second time there are sessions of the first attempt in the pool
        with pytest.raises(DatabaseRefused, match=problem), connect(settings(url)):
            pass


def test_a_direct_url_that_leads_to_a_pool_is_refused(bouncer: Bouncer, database: str) -> None:
    with pytest.raises(DatabaseRefused, match="another session"), connect(settings(database, bouncer())):
        pass


@pytest.mark.parametrize("with_direct_url", [False, True])
def test_statement_pooling_is_refused(bouncer: Bouncer, database: str, with_direct_url: bool) -> None:
    url = bouncer(pool_mode="statement")
    pooled = settings(url, database if with_direct_url else None)
    problem = r"allows no transactions .* use pool_mode = transaction and set CLERK_DIRECT_DATABASE_URL"
    with pytest.raises(DatabaseRefused, match=problem), connect(pooled) as connection:
        require_usable_pool(pooled, connection)


def test_transaction_pooling_is_accepted_with_a_direct_url(bouncer: Bouncer, database: str) -> None:
    pooled = settings(bouncer(), database)
    with connect(pooled) as connection:
        require_usable_pool(pooled, connection)
        locks = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        assert connection.execute(locks).fetchone() == (0,)


def test_a_pool_without_a_free_session_is_an_outage(bouncer: Bouncer, database: str) -> None:
    """PgBouncer reports it with the same SQLSTATE as a transaction in statement mode."""
    pooled = settings(bouncer(default_pool_size=1, query_wait_timeout=1), database)
    with psycopg.connect(str(pooled.database_url)) as other, connect(pooled) as connection:
        other.execute("select 1")
        with pytest.raises(DatabaseUnreachable, match=r"query_wait_timeout.*: a pooler responded"):
            require_usable_pool(pooled, connection)


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_pooler_that_changes_the_application_name_is_refused(bouncer: Bouncer, database: str, mode: str) -> None:
    """Each connection of a worker would have another name: its claims would be lost to itself."""
    pooled = settings(bouncer(pool_mode=mode, application_name_add_host=1), database if mode == "transaction" else None)
    problem = r"changes application_name.* \('clerk.* - 127\.0\.0\.1:\d+' instead of"
    with pytest.raises(DatabaseRefused, match=problem), connect(pooled) as connection:
        require_usable_pool(pooled, connection)


def test_a_worker_does_not_start_with_an_unusable_pool(
    bouncer: Bouncer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", bouncer(application_name_add_host=1))
    monkeypatch.setenv("CLERK_DIRECT_DATABASE_URL", database)
    with pytest.raises(DatabaseRefused, match="changes application_name"), ClerkConnector().connection():
        pass


def test_urls_of_different_databases_are_refused(bouncer: Bouncer, new_database: Callable[[], str]) -> None:
    """A command would change one database, and the workers process the jobs of the other."""
    pooled = settings(bouncer(), new_database())
    with connect(pooled) as connection, pytest.raises(DatabaseRefused, match="lead to different databases"):
        require_usable_pool(pooled, connection)


def test_another_search_path_is_refused_in_a_pool(bouncer: Bouncer, pipeline: Pipeline) -> None:
    """A worker sets it in a session of its own, which it has not in a pool."""
    name = pipeline.scalar("select current_database()")
    pipeline.connection.execute(f'alter database "{name}" set search_path = elsewhere'.encode())
    pooled = settings(bouncer(), pipeline.url)
    with connect(pooled) as connection, pytest.raises(DatabaseRefused, match="set search_path = public"):
        require_usable_pool(pooled, connection)
