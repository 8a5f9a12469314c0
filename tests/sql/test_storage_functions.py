"""clerk_mark_processed and clerk_mark_files_lost."""

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
def worker(connection: Connection) -> Worker:
    return Worker(connection)


def start_ocr(worker: Worker, documents: int) -> tuple[int, list[int]]:
    items = add_site(worker.connection, documents=documents)
    return start(worker.connection, phase=2), items


def test_an_open_unit_ends_with_its_job_and_the_last_one_with_the_coordinator(worker: Worker) -> None:
    run, items = start_ocr(worker, 2)
    assert engine.mark_processed(worker.connection, items[0], 7)
    assert unit(worker.connection, items[0])["status"] == "processed"
    assert job_status(worker.connection, unit(worker.connection, items[0])["job_id"]) == "succeeded"
    assert counters(worker.connection, "ocr") == (2, 1, 0)
    assert coordinators(worker.connection, run, 2) == 0
    assert engine.mark_processed(worker.connection, items[1], 7)
    assert counters(worker.connection, "ocr") == (2, 2, 0)
    assert coordinators(worker.connection, run, 2) == 1
    assert broken_invariants(worker.connection) == []
    assert not engine.mark_processed(worker.connection, items[1], 7)
    assert one(worker.connection, "select page_count from content_items where id = %s", [items[0]]) == 7
    drain(worker)
    assert site(worker.connection)["outcome"] == "succeeded"


def test_an_open_unit_without_a_job_is_marked(worker: Worker) -> None:
    _, items = start_ocr(worker, 2)
    with worker.connection.transaction():
        worker.connection.execute("set local session_replication_role = replica")
        worker.connection.execute("delete from procrastinate_jobs where queue_name = 'ocr'")
    assert engine.mark_processed(worker.connection, items[0], 1)
    assert counters(worker.connection, "ocr") == (2, 1, 0)
    assert broken_invariants(worker.connection) == []


def test_a_running_unit_is_left_alone(worker: Worker) -> None:
    _, items = start_ocr(worker, 1)
    job = worker.take("ocr")
    assert not engine.mark_processed(worker.connection, items[0], 1)
    assert unit(worker.connection, items[0])["status"] == "in_progress"
    assert worker.finish(job)
    assert counters(worker.connection, "ocr") == (1, 1, 0)


def test_a_document_without_ledger_row_makes_its_site_dirty(worker: Worker) -> None:
    add_site(worker.connection, documents=1)
    run_with(worker)
    (late,) = add_documents(worker.connection, "town", 1)
    assert engine.mark_processed(worker.connection, late, 3)
    assert unit(worker.connection, late)["status"] == "processed"
    assert site(worker.connection)["dirty"]
    assert broken_invariants(worker.connection) == []
    run = engine.start_refresh_run(worker.connection, "town")
    assert rows(
        worker.connection,
        "select content_item_id from content_item_pipeline_state where run_id = %s and pipeline = 'extraction'",
        [run],
    ) == [(late,)]


def test_a_failed_unit_stays_failed(worker: Worker) -> None:
    items = add_site(worker.connection, documents=2)
    run_with(worker, "ocr", items=(items[0],))
    assert unit(worker.connection, items[0])["status"] == "failed_terminal"
    assert not engine.mark_processed(worker.connection, items[0], 1)
    assert unit(worker.connection, items[0])["status"] == "failed_terminal"


def test_lost_files_are_created_again_by_the_next_run(worker: Worker) -> None:
    items = add_site(worker.connection, documents=2)
    run_with(worker)
    assert engine.mark_files_lost(worker.connection, items[0], "ocr", "gone")
    assert (unit(worker.connection, items[0])["status"], unit(worker.connection, items[0])["error_code"]) == (
        "failed_terminal",
        "FilesLost",
    )
    assert counters(worker.connection, "ocr") == (2, 1, 1)
    assert broken_invariants(worker.connection) == []
    start(worker.connection, phase=2)
    assert counters(worker.connection, "ocr") == (1, 0, 0)
    assert not engine.mark_files_lost(worker.connection, items[1], "ocr", "gone"), "a run is active"
    assert unit(worker.connection, items[1])["status"] == "processed"


def test_lost_files_are_marked_once(worker: Worker) -> None:
    items = add_site(worker.connection, documents=1)
    run_with(worker)
    assert engine.mark_files_lost(worker.connection, items[0], "ocr", "gone", pdf_missing=True)
    assert not engine.mark_files_lost(worker.connection, items[0], "ocr", "gone", pdf_missing=True)
    assert engine.mark_files_lost(worker.connection, items[0], "ocr", "its PDF is back")
    assert not engine.mark_files_lost(worker.connection, items[0], "ocr", "its PDF is back")
    assert counters(worker.connection, "ocr") == (1, 0, 1)


def test_a_document_without_pdf_waits_for_it(worker: Worker) -> None:
    items = add_site(worker.connection, documents=2)
    run_with(worker)
    engine.mark_files_lost(worker.connection, items[0], "ocr", "gone", pdf_missing=True)
    start(worker.connection, phase=2)
    assert counters(worker.connection, "ocr") == (0, 0, 0)
    drain(worker)
    worker.connection.execute("update content_items set pdf_missing_since = null")
    start(worker.connection, phase=2)
    assert counters(worker.connection, "ocr") == (1, 0, 0)


def test_recovered_texts_count_as_processed(worker: Worker) -> None:
    items = add_site(worker.connection, documents=2)
    run_with(worker)
    engine.mark_files_lost(worker.connection, items[0], "ocr", "gone", pdf_missing=True)
    assert engine.mark_processed(worker.connection, items[0], 2)
    assert counters(worker.connection, "ocr") == (2, 2, 0)
    assert unit(worker.connection, items[0])["error_code"] is None
    assert broken_invariants(worker.connection) == []


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


def test_the_same_content_published_twice_violates_i5(connection: Connection) -> None:
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
