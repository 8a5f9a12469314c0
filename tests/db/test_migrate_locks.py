"""Concurrent migrators, and sessions that hold locks on the tables a migration changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from clerk.db.connection import connect_to
from clerk.db.migrations.migrate import Migrator, Step, read_state
from clerk.errors import DatabaseRefused, MigrationError
from tests.conftest import Url
from tests.db.conftest import SqlFolderBuilder
from tests.helpers import TIMEOUT, until

WAIT_EVENT_QUERY = "select wait_event_type from pg_stat_activity where pid = %s"


@pytest.fixture
def url(new_database: Callable[[], Url]) -> Url:
    return new_database()


@pytest.fixture
def sessions(url: Url) -> Iterator[Callable[[], psycopg.Connection]]:
    """A function that opens another connection to the same database."""
    opened: list[psycopg.Connection] = []

    def another() -> psycopg.Connection:
        opened.append(psycopg.connect(url, autocommit=True))
        return opened[-1]

    yield another
    for connection in opened:
        connection.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.fixture
def things(url: Url, sql_folder: SqlFolderBuilder) -> SqlFolderBuilder:
    """A database with a table, and a second migration that needs an exclusive lock on the table."""
    sql_folder.migration("things", "create table things (id int);", "drop table things;")
    with connect_to(url) as connection:
        Migrator(connection, sql_folder.folder).up()
    sql_folder.migration("wider", "alter table things add column name text;", "alter table things drop column name;")
    return sql_folder


def is_waiting(observer: psycopg.Connection, pid: int) -> bool:
    return observer.execute(WAIT_EVENT_QUERY, [pid]).fetchone() == ("Lock",)


def test_an_index_can_be_built_concurrently(
    url: Url, sql_folder: SqlFolderBuilder, sessions: Callable[[], psycopg.Connection], threads: ThreadPoolExecutor
) -> None:
    sql_folder.migration("things", "create table things (id int);", "drop table things;")
    sql_folder.migration(
        "index",
        "-- transaction: none\n-- Two statements; each is its own transaction.\n"
        "drop index concurrently if exists idx_things_id;\ncreate index concurrently idx_things_id on things (id);\n",
        "drop index idx_things_id;",
    )
    writer, observer = sessions(), sessions()
    with connect_to(url) as connection:
        Migrator(connection, sql_folder.folder).up(1)
        writer.execute("begin; insert into things values (1)")
        # Timeouts for ordinary queries must not apply to index builds, which wait for every writer.
        connection.execute("set statement_timeout = '300ms'; set lock_timeout = '300ms'")
        running = threads.submit(Migrator(connection, sql_folder.folder).up)
        waits_long = (
            "select wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '400ms'"
            " from pg_stat_activity where pid = %s"
        )
        pid = connection.info.backend_pid
        until(lambda: running.done() or observer.execute(waits_long, [pid]).fetchone() == (True,))
        writer.execute("commit")
        running.result(TIMEOUT)
        valid = "select indisvalid from pg_index where indrelid = 'things'::regclass"
        assert observer.execute(valid).fetchall() == [(True,)]
        Migrator(connection, sql_folder.folder).down(1)
        assert read_state(connection).version == 1


def test_an_interrupted_index_build_is_repeated(url: Url, sql_folder: SqlFolderBuilder) -> None:
    sql_folder.migration("things", "create table things (id int); insert into things values (1), (1);")
    name = sql_folder.migration(
        "index",
        "-- transaction: none\ndrop index concurrently if exists uix_things_id;\n"
        "create unique index concurrently uix_things_id on things (id);\n",
        "drop index uix_things_id;",
    )
    with connect_to(url) as connection:
        with pytest.raises(MigrationError, match=f"{name} failed .*uix_things_id.*duplicated"):
            Migrator(connection, sql_folder.folder).up()
        valid = "select indisvalid from pg_index where indexrelid = 'uix_things_id'::regclass"
        assert connection.execute(valid).fetchone() == (False,), "Postgres leaves an invalid index"
        connection.execute("truncate things")
        Migrator(connection, sql_folder.folder).up()
        assert connection.execute(valid).fetchone() == (True,)


def test_two_concurrent_migrators_apply_everything_once(
    url: Url, sql_folder: SqlFolderBuilder, threads: ThreadPoolExecutor
) -> None:
    sql_folder.migration("things", "create table things (id int);")
    sql_folder.migration("rows", "insert into things values (1); select pg_sleep(0.2);")
    sql_folder.write("functions/one.sql", "-- needs: 0001\ncreate or replace function one() returns int return 1;")
    together = threading.Barrier(2)

    def migrate() -> list[Step]:
        with connect_to(url) as connection:
            together.wait()
            return Migrator(connection, sql_folder.folder).up()

    first, second = [threads.submit(migrate) for _ in range(2)]
    done = sorted([first.result(), second.result()], key=len)
    assert done[0] == [], "the second migrator had nothing to do"
    assert len(done[1]) == 4
    with connect_to(url) as connection:
        assert connection.execute("select id from things").fetchall() == [(1,)]


def test_a_waiting_migrator_does_not_block_a_concurrent_index_build(
    url: Url, sql_folder: SqlFolderBuilder, threads: ThreadPoolExecutor
) -> None:
    """A session that waits inside a statement holds a snapshot, and an index build waits for snapshots to end."""
    sql_folder.migration("things", "create table things (id int);")
    name = sql_folder.migration(
        "index",
        "-- transaction: none\nset statement_timeout = '120s';\ncreate index concurrently idx_things on things (id);\n",
    )
    at_the_index, other_waits = threading.Event(), threading.Event()

    def log_of_first(line: str) -> None:
        if line == f"applying {name}":
            at_the_index.set()
            assert other_waits.wait(TIMEOUT)

    def log_of_second(line: str) -> None:
        assert "another migrator is running" in line
        other_waits.set()

    def migrate(log: Callable[[str], None]) -> list[Step]:
        with connect_to(url) as connection:
            return Migrator(connection, sql_folder.folder, log=log).up()

    first = threads.submit(migrate, log_of_first)
    assert at_the_index.wait(TIMEOUT)
    second = threads.submit(migrate, log_of_second)
    assert len(first.result(TIMEOUT)) == 3
    assert second.result(TIMEOUT) == []


def test_other_sessions_can_read_a_locked_table_between_attempts(
    url: Url, things: SqlFolderBuilder, sessions: Callable[[], psycopg.Connection], threads: ThreadPoolExecutor
) -> None:
    holder, reader, observer = sessions(), sessions(), sessions()
    holder.execute("begin; select count(*) from things")
    failed_attempts: list[int] = []

    def retry_delay(attempt: int) -> float:
        # Between attempts no session waits for an exclusive lock, so a reader gets its lock.
        reader.execute("set lock_timeout = '100ms'")
        reader.execute("select count(*) from things")
        failed_attempts.append(attempt)
        if attempt == 3:
            holder.execute("commit")
        return 0.0

    with connect_to(url) as connection:
        pid = connection.info.backend_pid
        migrator = Migrator(connection, things.folder, lock_timeout=0.3, retry_delay=retry_delay)
        running = threads.submit(migrator.up)
        until(lambda: is_waiting(observer, pid) or running.done())
        # During an attempt a reader waits behind the migrator, but no longer than the migrator's lock timeout.
        reader_in_queue = threads.submit(sessions().execute, "select count(*) from things")
        assert [str(step) for step in running.result(TIMEOUT)] == ["apply 0002_wider"]
        reader_in_queue.result(TIMEOUT)
        assert failed_attempts == [1, 2, 3]
        assert read_state(connection).version == 2


@pytest.mark.parametrize("lock_timeout", [0.05, 0.0001], ids=["short", "below a millisecond"])
def test_the_migrator_fails_after_its_last_attempt(
    url: Url, things: SqlFolderBuilder, sessions: Callable[[], psycopg.Connection], lock_timeout: float
) -> None:
    holder = sessions()
    holder.execute("begin; select count(*) from things")
    log: list[str] = []
    with connect_to(url) as connection:
        connection.execute("set statement_timeout = '120s'")
        migrator = Migrator(
            connection, things.folder, lock_timeout, log.append, lock_attempts=2, retry_delay=lambda _: 0.0
        )
        with pytest.raises(DatabaseRefused, match=r"a lock was not available in 2 attempts .*pg_stat_activity"):
            migrator.up()
        assert log[-1] == "a table is locked: trying again (1 of 2)"
        assert read_state(connection).version == 1
        with pytest.raises(DatabaseRefused, match="in 2 attempts"):
            migrator.data_loss(0)
        holder.execute("commit")
        migrator.up()


def test_a_deadlock_is_retried(
    url: Url, sql_folder: SqlFolderBuilder, sessions: Callable[[], psycopg.Connection], threads: ThreadPoolExecutor
) -> None:
    sql_folder.migration("tables", "create table a (id int); create table b (id int);")
    with connect_to(url) as connection:
        Migrator(connection, sql_folder.folder).up()
    sql_folder.migration("both", "lock table a; lock table b; alter table b add column name text;")
    other, observer = sessions(), sessions()
    other.execute("begin; lock table b")

    def retry_delay(attempt: int) -> float:
        crossing.result(TIMEOUT)
        other.execute("commit")
        return 0.0

    with connect_to(url) as connection:
        connection.execute("set deadlock_timeout = '1s'")
        pid = connection.info.backend_pid
        other.execute("set deadlock_timeout = '120s'")
        running = threads.submit(Migrator(connection, sql_folder.folder, lock_timeout=30, retry_delay=retry_delay).up)
        until(lambda: is_waiting(observer, pid))
        crossing: Future[psycopg.Cursor] = threads.submit(other.execute, "lock table a")
        running.result(TIMEOUT)
        assert read_state(connection).version == 2


def test_a_migrator_that_loses_its_connection_leaves_no_lock(url: Url, things: SqlFolderBuilder) -> None:
    with connect_to(url) as observer:
        things.migration("disconnect", "select pg_terminate_backend(pg_backend_pid());")
        with connect_to(url) as connection, pytest.raises((psycopg.OperationalError, errors.AdminShutdown)):
            Migrator(connection, things.folder).up()
        assert read_state(observer).version == 2
        things.remove("migrations/0003_disconnect.up.sql")
        assert Migrator(observer, things.folder).up() == []
