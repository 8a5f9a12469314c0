"""A migrator among others: other migrators, and sessions that hold the tables it wants."""

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
from tests.db.conftest import Workbench
from tests.helpers import until

WAITS = "select wait_event_type from pg_stat_activity where pid = %s"


@pytest.fixture
def url(new_database: Callable[[], Url]) -> Url:
    return new_database()


@pytest.fixture
def sessions(url: Url) -> Iterator[Callable[[], psycopg.Connection]]:
    """Call it for one more connection to the same database."""
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
def things(url: Url, workbench: Workbench) -> Workbench:
    """A database with a table, and a second migration that needs the table for itself."""
    workbench.migration("things", "create table things (id int);", "drop table things;")
    with connect_to(url) as connection:
        Migrator(connection, workbench.folder).up()
    workbench.migration("wider", "alter table things add column name text;", "alter table things drop column name;")
    return workbench


def is_waiting(observer: psycopg.Connection, pid: int) -> bool:
    return observer.execute(WAITS, [pid]).fetchone() == ("Lock",)


def test_an_index_can_be_built_concurrently(
    url: Url, workbench: Workbench, sessions: Callable[[], psycopg.Connection], threads: ThreadPoolExecutor
) -> None:
    workbench.migration("things", "create table things (id int);", "drop table things;")
    workbench.migration(
        "index",
        "-- transaction: none\n-- Two statements; each is its own transaction.\n"
        "drop index concurrently if exists idx_things_id;\ncreate index concurrently idx_things_id on things (id);\n",
        "drop index idx_things_id;",
    )
    writer, observer = sessions(), sessions()
    with connect_to(url) as connection:
        Migrator(connection, workbench.folder).up(1)
        writer.execute("begin; insert into things values (1)")
        # Everyday limits of a server are not for index builds, which wait for every writer.
        connection.execute("set statement_timeout = '300ms'; set lock_timeout = '300ms'")
        running = threads.submit(Migrator(connection, workbench.folder).up)
        waits_long = (
            "select wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '400ms'"
            " from pg_stat_activity where pid = %s"
        )
        pid = connection.info.backend_pid
        until(lambda: running.done() or observer.execute(waits_long, [pid]).fetchone() == (True,))
        writer.execute("commit")
        running.result(30)
        valid = "select indisvalid from pg_index where indrelid = 'things'::regclass"
        assert observer.execute(valid).fetchall() == [(True,)]
        Migrator(connection, workbench.folder).down(1)
        assert read_state(connection).version == 1


def test_an_index_build_that_was_cut_short_is_done_again(url: Url, workbench: Workbench) -> None:
    workbench.migration("things", "create table things (id int); insert into things values (1), (1);")
    name = workbench.migration(
        "index",
        "-- transaction: none\ndrop index concurrently if exists uix_things_id;\n"
        "create unique index concurrently uix_things_id on things (id);\n",
        "drop index uix_things_id;",
    )
    with connect_to(url) as connection:
        with pytest.raises(MigrationError, match=f"{name} failed .*uix_things_id.*duplicated"):
            Migrator(connection, workbench.folder).up()
        valid = "select indisvalid from pg_index where indexrelid = 'uix_things_id'::regclass"
        assert connection.execute(valid).fetchone() == (False,), "Postgres leaves such a thing behind"
        connection.execute("truncate things")
        Migrator(connection, workbench.folder).up()
        assert connection.execute(valid).fetchone() == (True,)


def test_two_migrators_at_once_apply_everything_once(
    url: Url, workbench: Workbench, threads: ThreadPoolExecutor
) -> None:
    workbench.migration("things", "create table things (id int);")
    workbench.migration("rows", "insert into things values (1); select pg_sleep(0.2);")
    workbench.write("functions/one.sql", "-- needs: 0001\ncreate or replace function one() returns int return 1;")
    together = threading.Barrier(2)

    def migrate() -> list[Step]:
        with connect_to(url) as connection:
            together.wait()
            return Migrator(connection, workbench.folder).up()

    first, second = [threads.submit(migrate) for _ in range(2)]
    done = sorted([first.result(), second.result()], key=len)
    assert done[0] == [], "the later one found nothing left to do"
    assert len(done[1]) == 4
    with connect_to(url) as connection:
        assert connection.execute("select id from things").fetchall() == [(1,)]


def test_a_waiting_migrator_does_not_block_the_others_index(
    url: Url, workbench: Workbench, threads: ThreadPoolExecutor
) -> None:
    """A session that waits inside a statement holds a snapshot, and the index build waits for that in turn."""
    workbench.migration("things", "create table things (id int);")
    name = workbench.migration(
        "index",
        "-- transaction: none\nset statement_timeout = '20s';\ncreate index concurrently idx_things on things (id);\n",
    )
    at_the_index, other_waits = threading.Event(), threading.Event()

    def say_first(line: str) -> None:
        if line == f"applying {name}":
            at_the_index.set()
            assert other_waits.wait(20)

    def say_second(line: str) -> None:
        assert "another migrator is at work" in line
        other_waits.set()

    def migrate(say: Callable[[str], None]) -> list[Step]:
        with connect_to(url) as connection:
            return Migrator(connection, workbench.folder, say=say).up()

    first = threads.submit(migrate, say_first)
    assert at_the_index.wait(20)
    second = threads.submit(migrate, say_second)
    assert len(first.result(40)) == 3
    assert second.result(40) == []


def test_a_busy_table_is_not_blocked_for_others(
    url: Url, things: Workbench, sessions: Callable[[], psycopg.Connection], threads: ThreadPoolExecutor
) -> None:
    holder, reader, observer = sessions(), sessions(), sessions()
    holder.execute("begin; select count(*) from things")
    held_off: list[int] = []

    def pause(attempt: int) -> float:
        # Between the tries nobody queues for the table, so that a reader gets through at once.
        reader.execute("set lock_timeout = '100ms'")
        reader.execute("select count(*) from things")
        held_off.append(attempt)
        if attempt == 3:
            holder.execute("commit")
        return 0.0

    with connect_to(url) as connection:
        pid = connection.info.backend_pid
        migrator = Migrator(connection, things.folder, lock_timeout=0.3, pause=pause)
        running = threads.submit(migrator.up)
        until(lambda: is_waiting(observer, pid) or running.done())
        # Meanwhile a reader does queue behind it, but only for as long as the migrator's patience lasts.
        reader_in_queue = threads.submit(sessions().execute, "select count(*) from things")
        assert [str(step) for step in running.result(60)] == ["apply 0002_wider"]
        reader_in_queue.result(60)
        assert held_off == [1, 2, 3]
        assert read_state(connection).version == 2


@pytest.mark.parametrize("lock_timeout", [0.05, 0.0001], ids=["short", "below a millisecond"])
def test_after_its_tries_the_migrator_says_so(
    url: Url, things: Workbench, sessions: Callable[[], psycopg.Connection], lock_timeout: float
) -> None:
    holder = sessions()
    holder.execute("begin; select count(*) from things")
    said: list[str] = []
    with connect_to(url) as connection:
        connection.execute("set statement_timeout = '20s'")
        migrator = Migrator(connection, things.folder, lock_timeout, said.append, lock_tries=2, pause=lambda _: 0.0)
        with pytest.raises(DatabaseRefused, match=r"a lock could not be had in 2 tries .*pg_stat_activity"):
            migrator.up()
        assert said[-1] == "a table is busy: letting others through, then trying again (1 of 2)"
        assert read_state(connection).version == 1
        with pytest.raises(DatabaseRefused, match="in 2 tries"):
            migrator.data_loss(0)
        holder.execute("commit")
        migrator.up()


def test_a_deadlock_is_a_reason_to_try_again(
    url: Url, workbench: Workbench, sessions: Callable[[], psycopg.Connection], threads: ThreadPoolExecutor
) -> None:
    workbench.migration("tables", "create table a (id int); create table b (id int);")
    with connect_to(url) as connection:
        Migrator(connection, workbench.folder).up()
    workbench.migration("both", "lock table a; lock table b; alter table b add column name text;")
    other, observer = sessions(), sessions()
    other.execute("begin; lock table b")

    def pause(attempt: int) -> float:
        crossing.result(20)
        other.execute("commit")
        return 0.0

    with connect_to(url) as connection:
        connection.execute("set deadlock_timeout = '100ms'")
        pid = connection.info.backend_pid
        other.execute("set deadlock_timeout = '20s'")
        running = threads.submit(Migrator(connection, workbench.folder, lock_timeout=30, pause=pause).up)
        until(lambda: is_waiting(observer, pid))
        crossing: Future[psycopg.Cursor] = threads.submit(other.execute, "lock table a")
        running.result(40)
        assert read_state(connection).version == 2


def test_a_migrator_that_dies_leaves_no_lock(url: Url, things: Workbench) -> None:
    with connect_to(url) as observer:
        things.migration("suicide", "select pg_terminate_backend(pg_backend_pid());")
        with connect_to(url) as connection, pytest.raises((psycopg.OperationalError, errors.AdminShutdown)):
            Migrator(connection, things.folder).up()
        assert read_state(observer).version == 2
        things.remove("migrations/0003_suicide.up.sql")
        assert Migrator(observer, things.folder).up() == []
