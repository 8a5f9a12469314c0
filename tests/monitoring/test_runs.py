"""What the last run of a site did with its documents."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from clerk.monitoring.runs import DocumentCounts, count_documents
from tests.engine.helpers import Worker, add_documents, add_site, finish_phase, start


def test_documents_are_counted_by_what_the_run_did(
    connection: psycopg.Connection, new_worker: Callable[..., Worker]
) -> None:
    changed, restored = add_site(connection, documents=2)
    connection.execute("update content_items set fetched_at = clerk_now() where kind <> 'archive'")
    start(connection, phase=5)
    start(connection)
    new, revision, broken, not_downloaded = add_documents(connection, "town", 4)
    fetched = "update content_items set fetched_at = clerk_now() where id = any (%s)"
    connection.execute(fetched, [[restored, new, revision, broken]])
    connection.execute("update content_items set lineage_id = %s where id = %s", [changed, revision])
    connection.execute("update content_items set fetch_failed_at = clerk_now() where id = %s", [not_downloaded])
    worker = new_worker("0123456789ab clerk 77 machine-a")
    finish_phase(worker)
    finish_phase(worker, failing=(broken, not_downloaded))
    assert count_documents(connection, ["town", "nowhere"]) == {"town": DocumentCounts(1, 1, 2)}
    start(connection)
    assert count_documents(connection, ["town"]) == {"town": DocumentCounts(0, 0, 0)}
    assert str(DocumentCounts(1200, 1, 0)) == "1,200 new, 1 revised"
    assert str(DocumentCounts(0, 0, 0)) == "none new"
