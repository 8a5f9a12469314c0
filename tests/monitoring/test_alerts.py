"""What `clerk status` puts first: each trouble is named, with what to do, and none is when all is well."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from clerk.db.connection import read_only_snapshot
from clerk.monitoring.alerts import Alert, find_alerts
from clerk.monitoring.status import read_status
from clerk.pipeline import engine
from clerk.pipeline.engine import QUEUES
from tests.engine.helpers import Worker, add_site, expire, run_with, start
from tests.monitoring.workers import die, in_phase, register


@pytest.fixture
def hand(new_worker: Callable[[str], Worker]) -> Worker:
    return register(new_worker("0123456789ab clerk 77 machine-a"), *QUEUES)


@pytest.fixture
def items(connection: psycopg.Connection) -> list[int]:
    return add_site(connection, documents=12)


def found(connection: psycopg.Connection) -> dict[str, Alert]:
    with read_only_snapshot(connection):
        return {one.kind: one for one in find_alerts(read_status(connection))}


def test_all_is_well(connection: psycopg.Connection, items: list[int], hand: Worker) -> None:
    run_with(hand)
    in_phase(connection, 2)
    assert found(connection) == {}


def test_a_queue_that_nobody_reads(connection: psycopg.Connection, items: list[int]) -> None:
    in_phase(connection, 2)
    one = found(connection)["nothing_reads"]
    assert one.what == "nothing reads queue ocr: no worker alive; 12 jobs wait"
    assert one.remedy == "start one: clerk worker --queues ocr"


def test_a_stuck_site(connection: psycopg.Connection, items: list[int], hand: Worker) -> None:
    in_phase(connection, 2)
    connection.execute("update sites set updated_at = now() - interval '3 hours'")
    one = found(connection)["stuck"]
    assert one.what == "1 site is stuck: town (still for 3 h)"
    assert one.remedy == "see clerk why town"


def test_more_stuck_sites_than_can_be_named(connection: psycopg.Connection, hand: Worker) -> None:
    for number in range(15):
        add_site(connection, f"town{number}", documents=1)
        start(connection, f"town{number}")
    connection.execute("update sites set updated_at = now() - interval '3 hours'")
    assert found(connection)["stuck"].what.startswith("15 sites are stuck: ")
    assert found(connection)["stuck"].what.endswith(" and 12 more")


def test_a_dead_worker(connection: psycopg.Connection, items: list[int], hand: Worker) -> None:
    die(connection, hand)
    one = found(connection)["dead_worker"]
    assert one.what == f"1 worker is dead: worker {hand.number} on machine-a (last heard of 5 min ago)"


def test_broken_invariants(connection: psycopg.Connection, items: list[int], hand: Worker) -> None:
    in_phase(connection, 2)
    expire(connection, hand.take("ocr"))
    assert found(connection)["broken"].what == "1 invariant broken (I7: 1)"


def test_failures_that_rise(connection: psycopg.Connection, items: list[int], hand: Worker) -> None:
    run_with(hand, "ocr", items=tuple(items[:9]))
    assert "failures" not in found(connection)
    run_with(hand, "extraction", "ocr")
    connection.execute("delete from content_item_pipeline_state where status <> 'failed_terminal'")
    assert "failures" not in found(connection)
    connection.execute("update content_item_pipeline_state set updated_at = now() where status = 'failed_terminal'")
    connection.execute(
        "insert into content_item_pipeline_state (content_item_id, pipeline, status, error_code, run_id)"
        " select id, 'extraction', 'failed_terminal', 'X', 1 from content_items where kind = 'minutes'"
    )
    assert found(connection)["failures"].what == "failures rise: 21 in the last hour, 0 an hour in the day before"
    connection.execute("update content_item_pipeline_state set updated_at = now() - interval '2 hours'")
    assert "failures" not in found(connection)


def test_a_failed_run(connection: psycopg.Connection, items: list[int], hand: Worker) -> None:
    run_with(hand, "compilation")
    assert found(connection)["failed"].what == "the last run of 1 site failed: town"


def test_what_is_paused(connection: psycopg.Connection, items: list[int], hand: Worker) -> None:
    in_phase(connection, 2)
    engine.pause_queue(connection, "ocr", "bob")
    engine.pause_site(connection, "town", "ann")
    pauses = found(connection)
    assert pauses["queue_paused"].what.startswith("queue ocr is paused by bob since ")
    assert pauses["queue_paused"].what.endswith("; 12 jobs wait")
    assert pauses["queue_paused"].remedy == "clerk resume --queue ocr"
    assert pauses["site_paused"].what == "1 site is paused: town (by ann)"


def test_a_disabled_trigger(connection: psycopg.Connection, items: list[int], hand: Worker) -> None:
    connection.execute("alter table procrastinate_jobs disable trigger clerk_record_change")
    assert found(connection)["triggers"].what == "trigger clerk_record_change is disabled: what jobs do is not booked"
