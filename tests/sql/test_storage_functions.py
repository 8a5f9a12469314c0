"""What storage makes of units: counted as read without being read, or lost and to be done again."""

from __future__ import annotations

import pytest

from clerk.pipeline import engine
from tests.engine.helpers import (
    Connection,
    Worker,
    add_documents,
    add_site,
    broken_invariants,
    coordinators,
    counters,
    drain,
    job_status,
    one,
    rows,
    run_with,
    site,
    start,
    unit,
)


@pytest.fixture
def hand(connection: Connection) -> Worker:
    return Worker(connection)


def in_reading(hand: Worker, documents: int) -> tuple[int, list[int]]:
    items = add_site(hand.connection, documents=documents)
    return start(hand.connection, phase=2), items


def test_an_open_unit_ends_with_its_job_and_the_last_one_with_the_coordinator(hand: Worker) -> None:
    run, items = in_reading(hand, 2)
    assert engine.mark_processed(hand.connection, items[0], 7)
    assert unit(hand.connection, items[0])["status"] == "processed"
    assert job_status(hand.connection, unit(hand.connection, items[0])["job_id"]) == "succeeded"
    assert counters(hand.connection, "ocr") == (2, 1, 0)
    assert coordinators(hand.connection, run, 2) == 0
    assert engine.mark_processed(hand.connection, items[1], 7)
    assert counters(hand.connection, "ocr") == (2, 2, 0)
    assert coordinators(hand.connection, run, 2) == 1
    assert broken_invariants(hand.connection) == []
    assert not engine.mark_processed(hand.connection, items[1], 7)
    assert one(hand.connection, "select page_count from content_items where id = %s", [items[0]]) == 7
    drain(hand)
    assert site(hand.connection)["outcome"] == "succeeded"


def test_one_whose_job_is_gone_is_counted_too(hand: Worker) -> None:
    _, items = in_reading(hand, 2)
    with hand.connection.transaction():
        hand.connection.execute("set local session_replication_role = replica")
        hand.connection.execute("delete from procrastinate_jobs where queue_name = 'ocr'")
    assert engine.mark_processed(hand.connection, items[0], 1)
    assert counters(hand.connection, "ocr") == (2, 1, 0)
    assert broken_invariants(hand.connection) == []


def test_one_that_somebody_reads_is_left_to_them(hand: Worker) -> None:
    _, items = in_reading(hand, 1)
    job = hand.take("ocr")
    assert not engine.mark_processed(hand.connection, items[0], 1)
    assert unit(hand.connection, items[0])["status"] == "in_progress"
    assert hand.finish(job)
    assert counters(hand.connection, "ocr") == (1, 1, 0)


def test_one_that_the_ledger_never_knew_makes_its_site_dirty(hand: Worker) -> None:
    add_site(hand.connection, documents=1)
    run_with(hand)
    (late,) = add_documents(hand.connection, "town", 1)
    assert engine.mark_processed(hand.connection, late, 3)
    assert unit(hand.connection, late)["status"] == "processed"
    assert site(hand.connection)["dirty"]
    assert broken_invariants(hand.connection) == []
    run = engine.start_refresh_run(hand.connection, "town")
    assert rows(
        hand.connection,
        "select content_item_id from content_item_pipeline_state where run_id = %s and pipeline = 'extraction'",
        [run],
    ) == [(late,)]


def test_one_that_failed_stays_failed(hand: Worker) -> None:
    items = add_site(hand.connection, documents=2)
    run_with(hand, "ocr", items=(items[0],))
    assert unit(hand.connection, items[0])["status"] == "failed_terminal"
    assert not engine.mark_processed(hand.connection, items[0], 1)
    assert unit(hand.connection, items[0])["status"] == "failed_terminal"


def test_lost_files_are_made_again_by_the_next_run_with_books_that_are_right_meanwhile(hand: Worker) -> None:
    items = add_site(hand.connection, documents=2)
    run_with(hand)
    assert engine.mark_files_lost(hand.connection, items[0], "ocr", "gone")
    assert (unit(hand.connection, items[0])["status"], unit(hand.connection, items[0])["error_code"]) == (
        "failed_terminal",
        "FilesLost",
    )
    assert counters(hand.connection, "ocr") == (2, 1, 1)
    assert broken_invariants(hand.connection) == []
    start(hand.connection, phase=2)
    assert counters(hand.connection, "ocr") == (1, 0, 0)
    assert not engine.mark_files_lost(hand.connection, items[1], "ocr", "gone"), "a run is going"
    assert unit(hand.connection, items[1])["status"] == "processed"


def test_what_is_lost_already_is_not_lost_again(hand: Worker) -> None:
    items = add_site(hand.connection, documents=1)
    run_with(hand)
    assert engine.mark_files_lost(hand.connection, items[0], "ocr", "gone", pdf_missing=True)
    assert not engine.mark_files_lost(hand.connection, items[0], "ocr", "gone", pdf_missing=True)
    assert engine.mark_files_lost(hand.connection, items[0], "ocr", "its PDF is back")
    assert not engine.mark_files_lost(hand.connection, items[0], "ocr", "its PDF is back")
    assert counters(hand.connection, "ocr") == (1, 0, 1)


def test_one_without_its_pdf_waits_until_that_is_back(hand: Worker) -> None:
    items = add_site(hand.connection, documents=2)
    run_with(hand)
    engine.mark_files_lost(hand.connection, items[0], "ocr", "gone", pdf_missing=True)
    start(hand.connection, phase=2)
    assert counters(hand.connection, "ocr") == (0, 0, 0)
    drain(hand)
    hand.connection.execute("update content_items set pdf_missing_since = null")
    start(hand.connection, phase=2)
    assert counters(hand.connection, "ocr") == (1, 0, 0)


def test_what_was_lost_and_found_counts_again(hand: Worker) -> None:
    items = add_site(hand.connection, documents=2)
    run_with(hand)
    engine.mark_files_lost(hand.connection, items[0], "ocr", "gone", pdf_missing=True)
    assert engine.mark_processed(hand.connection, items[0], 2)
    assert counters(hand.connection, "ocr") == (2, 2, 0)
    assert unit(hand.connection, items[0])["error_code"] is None
    assert broken_invariants(hand.connection) == []


def publish(connection: Connection, content: str, deployer: str = "local", lost_copy: bool = False) -> None:
    run = one(connection, "insert into pipeline_runs (subdomain, reason) values ('town', 'x') returning run_id")
    connection.execute("update pipeline_runs set ended_at = now(), outcome = 'succeeded' where run_id = %s", [run])
    publication = one(
        connection,
        "insert into publications (subdomain, run_id, content_hash, pages, deployed_at, lost_copy)"
        " values ('town', %s, %s, 1, now(), %s) returning id",
        [run, content * 64, lost_copy],
    )
    connection.execute(
        "insert into publication_steps (publication_id, step, name) values (%s, 'deploy', %s)", [publication, deployer]
    )


def test_the_same_content_published_twice_breaks_i5(connection: Connection) -> None:
    add_site(connection)
    connection.execute("update sites set updated_at = now()")
    for content, more in (("a", {}), ("b", {}), ("a", {}), ("a", {"deployer": "other"}), ("a", {"lost_copy": True})):
        publish(connection, content, **more)
        assert rows(connection, "select invariant from invariant_violations") == []
    publish(connection, "a")
    assert rows(connection, "select invariant, stage from invariant_violations") == [("I5", "deploy")]
    connection.execute("update sites set updated_at = now() - interval '2 hours'")
    assert rows(connection, "select invariant from invariant_violations") == []
    assert rows(connection, "select invariant from invariant_violations_full") == [("I5",)]
