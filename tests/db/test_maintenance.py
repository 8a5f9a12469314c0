"""`clerk db maintain` on really bloated indexes, beside other sessions, killed, and without the rights it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from clerk.db.connection import connect_to
from clerk.db.maintenance import Maintenance, StepResult
from clerk.errors import DatabaseRefused
from tests.cli.conftest import Clerk
from tests.cli.conftest import clerk_command as clerk_command
from tests.conftest import Url
from tests.engine.helpers import add_site, connect_worker, drain, start
from tests.helpers import until

ROOT = Path(__file__).parents[2]
INDEXES = ["idx_ignored_results_at", "ignored_results_pkey"]


def bloat(connection: psycopg.Connection) -> None:
    """Insert rows, delete nine in ten of them and vacuum: the indexes keep their size."""
    with connect_to(connection.info.dsn) as writer:
        writer.execute("alter table ignored_results set (autovacuum_enabled = false)")
        writer.execute(
            "insert into ignored_results (job_id, holder, status, why, at)"
            " select n, 'a worker on a machine', 'succeeded', 'fenced', now() - n * interval '1 s'"
            " from generate_series(1, 20000) n"
        )
        writer.execute("delete from ignored_results where mod(job_id, 10) <> 0")
    # A session reports its statistics when it ends; afterwards vacuum sets the number of dead rows to zero.
    dead_rows = "select dead_rows from table_health where table_name = 'ignored_results'"
    until(lambda: connection.execute(dead_rows).fetchone() == (18000,))
    connection.execute("vacuum analyze ignored_results")


def sizes(connection: psycopg.Connection) -> dict[str, int]:
    return dict(
        connection.execute(
            "select c.relname::text, pg_relation_size(c.oid) from pg_class c join pg_index i on i.indexrelid = c.oid"
            " where i.indrelid = 'ignored_results'::regclass"
        ).fetchall()
    )


def maintenance(connection: psycopg.Connection, **options: Any) -> Maintenance:
    return Maintenance(connection, min_bytes=100_000, **options)


def run(connection: psycopg.Connection, **options: Any) -> list[StepResult]:
    return list(maintenance(connection, **options).run())


@pytest.fixture
def other(database: Url) -> Iterator[psycopg.Connection]:
    with connect_to(database) as connection:
        yield connection


def hold_snapshot(connection: psycopg.Connection) -> None:
    """Begin a transaction for which `reindex concurrently` on the table waits."""
    connection.execute("begin isolation level repeatable read")
    connection.execute("select from ignored_results limit 1")


def test_bloated_indexes_are_rebuilt_the_largest_waste_first(connection: psycopg.Connection) -> None:
    connection.execute("create index wide on ignored_results (id, holder)")
    assert maintenance(connection).plan() == []
    bloat(connection)
    before = sizes(connection)
    plan = maintenance(connection).plan()
    assert [(step.action, step.name) for step in plan] == [("reindex", index) for index in ("wide", *INDEXES)]
    assert sizes(connection) == before, "a plan changes nothing"

    results = run(connection)
    assert [(result.step, result.error) for result in results] == [(step, None) for step in plan]
    after = sizes(connection)
    assert set(after) == set(before)
    for result in results:
        assert result.step.size_bytes == before[result.step.name]
        assert result.size_after == after[result.step.name] < before[result.step.name] / 4
    assert run(connection) == []


def test_the_thresholds(connection: psycopg.Connection) -> None:
    bloat(connection)
    assert maintenance(connection, threshold=97).plan() == []
    assert Maintenance(connection).plan() == [], "a reindex would free less than 10 MB"


def test_a_table_with_dead_rows_is_vacuumed_unless_it_is_locked(
    connection: psycopg.Connection, other: psycopg.Connection, database: Url
) -> None:
    connection.execute("alter table sites set (autovacuum_enabled = false)")
    # A session reports its statistics when it ends.
    with connect_to(database) as writer:
        writer.execute("insert into sites (subdomain) select 'town' || n from generate_series(1, 1000) n")
        writer.execute("update sites set name = 'a'")
    query = "select dead_rows from table_health where table_name = 'sites'"
    until(lambda: connection.execute(query).fetchone() == (1000,))
    (step,) = maintenance(connection).plan()
    assert (step.action, step.name, step.why) == ("vacuum", "sites", "1,000 dead rows")
    with other.transaction():
        other.execute("lock table sites in share update exclusive mode")
        (result,) = run(connection)
    assert result.error is not None
    assert result.error.startswith('skipping vacuum of "sites"')
    (result,) = run(connection)
    assert result.error is None
    assert connection.execute(query).fetchone() == (0,)
    assert run(connection) == []


def test_an_old_transaction_prevents_a_reindex(connection: psycopg.Connection, other: psycopg.Connection) -> None:
    bloat(connection)
    before = sizes(connection)
    hold_snapshot(other)
    (result,) = run(connection, lock_timeout=0.1)
    assert (result.step.name, str(result.error).split(" (")[0]) == (
        INDEXES[0],
        "a transaction that began earlier did not end within 0.1 s",
    )
    invalid = f"{INDEXES[0]}_ccnew"
    assert set(sizes(connection)) == {*before, invalid}, "one attempt, since the invalid index cannot be dropped either"
    (result,) = run(connection, lock_timeout=0.1)
    assert (result.step.action, result.step.name, result.error is None) == ("drop", invalid, False)
    other.execute("rollback")
    assert [result.error for result in run(connection)] == [None, None, None]
    assert set(sizes(connection)) == set(before)


def test_a_lock_that_ends_is_waited_for(connection: psycopg.Connection, other: psycopg.Connection) -> None:
    """A vacuum of the table, for example."""
    bloat(connection)
    other.execute("begin")
    other.execute("lock table ignored_results in share update exclusive mode")

    def end_transaction(message: str) -> None:
        if "trying again (1 of 3)" in message:
            other.execute("rollback")

    results = run(connection, lock_timeout=0.1, report=end_transaction)
    assert [result.error for result in results] == [None, None]


def test_jobs_are_processed_while_a_reindex_waits(
    connection: psycopg.Connection, other: psycopg.Connection, database: Url
) -> None:
    bloat(connection)
    hold_snapshot(other)
    pid = connection.info.backend_pid
    results: list[StepResult] = []
    thread = threading.Thread(target=lambda: results.extend(run(connection)))
    thread.start()
    waiting = "select wait_event_type from pg_stat_activity where pid = %s and query like 'reindex%%'"
    with connect_worker(database, "0123456789ab clerk 4711 machine-a") as worker:
        until(lambda: worker.connection.execute(waiting, [pid]).fetchone() == ("Lock",))
        add_site(worker.connection)
        start(worker.connection)
        job = worker.fetch()
        assert job is not None
        worker.finish(job)
        assert drain(worker) > 3
        # Also the table whose index is being rebuilt can be written to.
        worker.connection.execute("update ignored_results set status = 'failed'")
    assert thread.is_alive()
    other.execute("rollback")
    thread.join()
    assert [result.error for result in results] == [None, None]


def test_a_killed_command_is_continued(
    connection: psycopg.Connection, other: psycopg.Connection, database: Url
) -> None:
    bloat(connection)
    before = sizes(connection)
    hold_snapshot(other)
    command = subprocess.Popen(
        [sys.executable, "-m", "clerk", "db", "maintain", "--min-mb", "0.1", "--quiet"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database},
    )
    try:
        until(lambda: "idx_ignored_results_at_ccnew" in sizes(connection))
        with pytest.raises(
            DatabaseRefused, match=r"another clerk db maintain is running .* \(process \d+ of the server\)"
        ):
            run(connection)
    finally:
        command.kill()
        command.wait()
    # The server notices within seconds that the client is gone, and releases its locks.
    reindexing = "select count(*) from pg_stat_activity where query like 'reindex%' and datname = current_database()"
    until(lambda: connection.execute(reindexing.encode()).fetchone() == (0,))
    other.execute("rollback")

    # An invalid index of another application is left alone.
    connection.execute("create table foreign_table (n int); insert into foreign_table values (1), (1)")
    with pytest.raises(errors.UniqueViolation):
        connection.execute("create unique index concurrently foreign_ccnew on foreign_table (n)")
    results = run(connection)
    assert [(result.step.action, result.step.name, result.error) for result in results] == [
        ("drop", "idx_ignored_results_at_ccnew", None),
        *(("reindex", index, None) for index in INDEXES),
    ]
    assert set(sizes(connection)) == set(before)
    assert connection.execute("select to_regclass('foreign_ccnew') is null").fetchone() == (False,)


def test_the_time_limit(connection: psycopg.Connection, other: psycopg.Connection) -> None:
    bloat(connection)
    hold_snapshot(other)
    assert run(connection, time_limit=0.0) == [], "no step begins"
    began = time.monotonic()
    limited = maintenance(connection, time_limit=3600.0)

    def shorten(_: str) -> None:
        limited.time_limit = time.monotonic() - began + 0.5

    limited.report = shorten
    (result,) = limited.run()
    assert result.step.name == INDEXES[0]
    assert str(result.error).startswith("the time limit of "), "a step that runs is cancelled"
    other.execute("rollback")
    assert connection.execute("show statement_timeout").fetchone() == ("0",)
    assert [(r.step.action, r.error) for r in run(connection)] == [("drop", None), ("reindex", None), ("reindex", None)]


def test_a_user_who_does_not_own_the_tables(connection: psycopg.Connection) -> None:
    connection.execute("set role clerk_worker")
    sentence = (
        "the database user clerk_worker may not vacuum or reindex the table clerk_migrations, which belongs to"
        " clerk_owner: connect as clerk_owner or a member of it, as for clerk db up."
    )
    for attempt in (maintenance(connection).plan, lambda: run(connection)):
        with pytest.raises(DatabaseRefused) as refused:
            attempt()
        assert str(refused.value) == sentence
    # The owner may, without being a superuser.
    connection.execute("set role clerk_owner")
    assert run(connection) == []


def test_the_command(
    connection: psycopg.Connection, database: Url, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    assert clerk_command("db", "maintain").out == "There is nothing to do.\n"
    bloat(connection)
    arguments = ("db", "maintain", "--min-mb", "0.1")
    planned = clerk_command(*arguments, "--dry-run").out.splitlines()
    assert [line.split()[:2] for line in planned] == [*(["reindex", index] for index in INDEXES), ["Nothing", "was"]]
    assert "% bloat" in planned[0]
    steps = json.loads(clerk_command(*arguments, "--dry-run", "--json").out)["steps"]
    assert [(step["action"], step["name"]) for step in steps] == [("reindex", index) for index in INDEXES]

    done = clerk_command(*arguments)
    assert (done.code, done.out.splitlines()[-1].startswith("2 steps of 2 done, ")) == (0, True)
    assert "reindex idx_ignored_results_at (" in done.err
    assert json.loads(clerk_command(*arguments, "--json").out) == {"dry_run": False, "steps": []}
    assert clerk_command("db", "maintain", "--threshold", "0").code == 2


def test_a_step_that_could_not_be_done_fails_the_command(
    connection: psycopg.Connection,
    other: psycopg.Connection,
    database: Url,
    clerk_command: Clerk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    bloat(connection)
    hold_snapshot(other)
    done = clerk_command("db", "maintain", "--min-mb", "0.1", "--lock-timeout", "0.1", "--quiet")
    assert (done.code, done.out.splitlines()[-1]) == (1, "0 steps of 1 done, 0 bytes freed.")
    assert "not done: " in done.out
