"""Procrastinate's triggers for events and notifications are replaced by clerk's, which do the same per statement."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.db.migrations.verify import require_known_schema, verify_schema
from clerk.errors import SchemaMismatch

THEIRS = (
    "procrastinate_jobs_notify_queue_job_inserted_v1",
    "procrastinate_trigger_status_events_insert_v1",
    "procrastinate_trigger_status_events_update_v1",
)
OURS = ("clerk_record_insert", "clerk_record_change", "clerk_record_delete", "clerk_fence", "clerk_hold_paused")


@contextmanager
def stock_triggers(connection: psycopg.Connection) -> Iterator[None]:
    """Procrastinate's triggers instead of clerk's."""
    for name in OURS:
        connection.execute(f"alter table procrastinate_jobs disable trigger {name}".encode())
    for name in THEIRS:
        connection.execute(f"alter table procrastinate_jobs enable trigger {name}".encode())
    yield
    for name in OURS:
        connection.execute(f"alter table procrastinate_jobs enable trigger {name}".encode())
    for name in THEIRS:
        connection.execute(f"alter table procrastinate_jobs disable trigger {name}".encode())


def events_of_every_change(connection: psycopg.Connection) -> dict[tuple[str, str], list[str]]:
    """(old status, new status) → events of a statement that changes two such jobs; also of inserting them."""
    found = {}
    statuses = [row[0] for row in connection.execute("select unnest(enum_range(null::procrastinate_job_status))::text")]
    for old, new in itertools.product(statuses, statuses):
        connection.execute("delete from procrastinate_jobs")
        connection.execute(
            "insert into procrastinate_jobs (queue_name, task_name, status)"
            " select 'q', 't', %s from generate_series(1, 2)",
            [old],
        )
        connection.execute("select set_config('clerk.actor', 'a test', false)")
        connection.execute("update procrastinate_jobs set status = %s, abort_requested = false", [new])
        rows = connection.execute("select type::text from procrastinate_events order by type, job_id").fetchall()
        found[old, new] = [row[0] for row in rows]
    return found


def test_events_equal_those_of_procrastinate(connection: psycopg.Connection) -> None:
    ours = events_of_every_change(connection)
    with stock_triggers(connection):
        assert events_of_every_change(connection) == ours
    assert ours["todo", "doing"] == ["deferred", "deferred", "started", "started"]


def test_one_notification_per_queue_and_statement(connection: psycopg.Connection) -> None:
    channels = ("procrastinate_queue_v1#a", "procrastinate_queue_v1#b", "procrastinate_any_queue_v1")
    for channel in channels:
        connection.execute(psycopg.sql.SQL("listen {}").format(psycopg.sql.Identifier(channel)))
    connection.execute(
        "insert into procrastinate_jobs (queue_name, task_name)"
        " select case when n % 2 = 0 then 'a' else 'b' end, 't' from generate_series(1, 10) n"
    )
    received = [(n.channel, n.payload) for n in connection.notifies(timeout=1, stop_after=3)]
    first = connection.execute("select queue_name, min(id) from procrastinate_jobs group by 1 order by 1").fetchall()
    expected = {f"procrastinate_queue_v1#{queue}": job for queue, job in first}
    expected["procrastinate_any_queue_v1"] = min(job for _, job in first)
    assert sorted(received) == sorted(
        (channel, f'{{"type": "job_inserted", "job_id": {job}}}') for channel, job in expected.items()
    )
    assert list(connection.notifies(timeout=0)) == []


@pytest.mark.parametrize("trigger", THEIRS)
def test_a_trigger_that_was_enabled_again_is_noticed_and_disabled(
    connection: psycopg.Connection, folder: SqlFolder, trigger: str
) -> None:
    """By hand, or by an upgrade of Procrastinate: events would be recorded twice."""
    connection.execute(f"alter table procrastinate_jobs enable trigger {trigger}".encode())
    with pytest.raises(SchemaMismatch, match=f"{trigger} is enabled"):
        require_known_schema(connection, folder)
    assert not all(check.ok for check in verify_schema(connection, folder))

    command = f"execute alter table procrastinate_jobs disable trigger {trigger}"
    assert [str(step) for step in Migrator(connection, folder).up()] == [command]
    require_known_schema(connection, folder)
    assert all(check.ok for check in verify_schema(connection, folder))


def test_a_new_trigger_of_procrastinate_is_noticed(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute(
        "create trigger procrastinate_trigger_status_events_update_v2 after update on procrastinate_jobs for each row"
        " execute function procrastinate_trigger_function_status_events_update_v1()"
    )
    with pytest.raises(SchemaMismatch, match="status_events_update_v2 is unknown to this clerk"):
        require_known_schema(connection, folder)


def test_down_restores_the_triggers_of_procrastinate(connection: psycopg.Connection, folder: SqlFolder) -> None:
    Migrator(connection, folder).down(19)
    enabled = connection.execute(
        "select tgname, tgenabled from pg_trigger where tgname = any (%s) order by 1", [list(THEIRS)]
    ).fetchall()
    assert enabled == [(name, "O") for name in sorted(THEIRS)]
    Migrator(connection, folder).up()
    assert all(check.ok for check in verify_schema(connection, folder))
