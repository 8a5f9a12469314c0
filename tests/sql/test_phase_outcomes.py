"""Outcomes of runs: no documents, no readable document and no new document are distinguished."""

from __future__ import annotations

import pytest
from psycopg import sql

from clerk.pipeline import engine
from tests.engine.helpers import Connection, Worker, add_documents, add_site, finish_phase, run_with, site, start, unit


@pytest.mark.parametrize(
    ("documents", "failing", "outcome"),
    [
        (2, (), "succeeded: all done"),
        (0, (), "no_documents: the source has no documents"),
        (0, ("fetch",), "failed: fetching failed, and there are no documents from before"),
        (1, ("ocr",), "failed: the only document could not be read"),
        (2, ("ocr",), "failed: none of 2 documents could be read"),
        (2, ("fetch",), "partial: fetching failed"),
        (2, ("extraction",), "partial: 2 documents without people and votes"),
        (2, ("compilation",), "failed: compilation failed; the published archive stays as it was"),
        (2, ("compilation", "extraction"), "failed: compilation failed; the published archive stays as it was"),
        (2, ("deploy",), "failed: deploy or a post-deploy hook failed"),
        (2, ("fetch", "extraction"), "partial: fetching failed, 2 documents without people and votes"),
    ],
)
def test_first_run(connection: Connection, documents: int, failing: tuple[str, ...], outcome: str) -> None:
    add_site(connection, documents=documents)
    assert run_with(Worker(connection), *failing) == outcome


@pytest.mark.parametrize(("count", "text"), [(1, "1 entry of the source was"), (17, "17 entries of the source were")])
def test_the_outcome_says_how_many_entries_were_skipped(connection: Connection, count: int, text: str) -> None:
    add_site(connection, documents=1)
    default = sql.SQL("alter table pipeline_runs alter column skipped set default {}")
    connection.execute(default.format(count))  # every run of this test then has skipped as many
    try:
        skipped = f"; {text} skipped (clerk site skipped town)"
        assert run_with(Worker(connection)) == f"succeeded: all done{skipped}"
        assert run_with(Worker(connection)) == f"unchanged: no new documents{skipped}"
    finally:
        connection.execute(default.format(0))


def test_a_source_without_documents_is_recorded_as_an_error_of_fetch(connection: Connection) -> None:
    add_site(connection, documents=0)
    run_with(Worker(connection))
    row = site(connection)
    assert (row["last_error_stage"], row["last_error_message"]) == ("fetch", "NoDocuments: the source has no documents")
    assert row["last_error_at"] >= row["started_at"]

    add_documents(connection, "town", 1)
    assert run_with(Worker(connection)) == "succeeded: all done"
    assert site(connection)["last_error_at"] == row["last_error_at"], "other outcomes change nothing"


def test_later_runs(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    worker = Worker(connection)
    assert run_with(worker, "ocr", items=(items[0],)) == "partial: 1 document unread"
    assert run_with(worker) == "unchanged: no new documents; 1 document unread"
    assert run_with(worker, "fetch") == "failed: fetching failed; the published archive stays as it was"
    new = add_documents(connection, "town", 1)
    assert run_with(worker, "ocr") == "partial: 1 new document, none readable"
    assert unit(connection, new[0])["status"] == "failed_terminal"
    add_documents(connection, "town", 1)
    assert run_with(worker) == "partial: 2 documents unread"


@pytest.mark.parametrize("ending", ["compilation fails", "deploy fails", "cancelled while reading", "cancelled late"])
def test_processed_documents_are_published_by_the_next_run(connection: Connection, ending: str) -> None:
    """A run that ended between OCR and deploy is not followed by one with outcome "unchanged"."""
    add_site(connection, documents=1)
    worker = Worker(connection)
    assert run_with(worker) == "succeeded: all done"
    add_documents(connection, "town", 1)
    if ending.endswith("fails"):
        assert run_with(worker, ending.split()[0]).startswith("failed: ")
    else:
        start(connection, phase=2)
        if ending == "cancelled late":
            finish_phase(worker)
            worker.finish(worker.take("compilation"))
        else:
            worker.finish(worker.take("ocr"))
        engine.cancel_run(connection, "town")
        connection.execute("delete from procrastinate_jobs where status = 'todo'")
    assert run_with(worker) == "succeeded: all done"
    assert run_with(worker) == "unchanged: no new documents"


def test_a_deleted_extraction_is_repeated_by_the_next_run(connection: Connection) -> None:
    items = add_site(connection, documents=2)
    worker = Worker(connection)
    start(connection, phase=2)
    finish_phase(worker)
    connection.execute(
        "delete from procrastinate_jobs where queue_name = 'extraction' and args ->> 'content_item_id' = %s",
        [str(items[0])],
    )
    finish_phase(worker)
    finish_phase(worker)
    assert unit(connection, items[0], "extraction")["error_code"] == "JobDeleted"

    assert run_with(worker) == "succeeded: all done"
    assert unit(connection, items[0], "extraction")["status"] == "processed"
    assert run_with(worker) == "unchanged: no new documents"
