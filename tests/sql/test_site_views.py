"""Views behind the pages of one site."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.rows import dict_row

from tests.engine.helpers import Connection, Worker, add_site, drain, start
from tests.engine.helpers import rows as found


def rows(connection: Connection, query: str) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return list(cursor.execute(query.encode()))


def test_documents_of_a_run(connection: Connection) -> None:
    add_site(connection, documents=3)
    start(connection, phase=2)
    assert {row["state"] for row in rows(connection, "select * from site_documents")} == {"open"}
    drain(Worker(connection))
    seen = rows(connection, "select * from site_documents order by id")
    assert [(row["state"], row["ocr_status"], row["extraction_status"]) for row in seen] == [
        ("done", "processed", "processed")
    ] * 3
    assert all(row["ocr_attempts"] == 1 and row["ocr_took"] is not None for row in seen)
    (run,) = rows(connection, "select * from run_history")
    assert (run["outcome"], run["ocr_completed"], run["took"].total_seconds() >= 0) == ("succeeded", 3, True)


def test_skipped_entries_of_a_run(connection: Connection) -> None:
    add_site(connection, documents=1)
    start(connection)
    for view in ("run_history", "current_runs"):
        assert found(connection, f"select skipped, skipped_examples from {view}") == [(0, None)]
    connection.execute("update pipeline_runs set skipped = 2, skipped_examples = array['a', 'b']")
    for view in ("run_history", "current_runs"):
        assert found(connection, f"select skipped, skipped_examples from {view}") == [(2, ["a", "b"])]


@pytest.mark.parametrize(
    ("fetched", "fetch_error", "ocr", "extraction", "state"),
    [
        (True, None, "processed", "processed", "done"),
        (True, None, "processed", None, "done"),
        (True, "DownloadFailed", "processed", "processed", "done"),
        (True, None, "processed", "failed_terminal", "failed"),
        (True, None, "failed_terminal", None, "failed"),
        (False, "DownloadFailed", None, None, "failed"),
        (False, "DownloadFailed", "processed", None, "done"),
        (False, None, None, None, "open"),
        (True, None, None, None, "open"),
        (True, None, "failed_retryable", None, "open"),
        (True, None, "processed", "in_progress", "open"),
    ],
)
def test_state_of_a_document(
    connection: Connection, fetched: bool, fetch_error: str | None, ocr: str | None, extraction: str | None, state: str
) -> None:
    add_site(connection, documents=1)
    connection.execute(
        "update content_items set sha256 = case when %s then repeat('0', 64) end, fetch_error_code = %s",
        [fetched, fetch_error],
    )
    for stage, status in (("ocr", ocr), ("extraction", extraction)):
        if status:
            connection.execute(
                "insert into content_item_pipeline_state (content_item_id, pipeline, status)"
                " select id, %s, %s from content_items where kind <> 'archive'",
                [stage, status],
            )
    assert found(connection, "select state from site_documents") == [(state,)]


@pytest.mark.parametrize(
    ("extra", "address", "path"),
    [
        (None, None, None),
        ("", None, None),
        ("{broken", None, None),
        ('{"url": "https://a.example/x?token=secret"}', "https://a.example/x", None),
        ('{"site": "http://user:secret@a.example/x"}', "http://a.example/x", None),
        ('{"pages": [ "https://a.example/p", "https://b.example"]}', "https://a.example/p", None),
        ('{"url": "javascript:alert(1)"}', None, None),
        ('{"path": "/data/town"}', None, "/data/town"),
        ('{"token": "https://secret.example"}', None, None),
    ],
)
def test_sources_without_their_secrets(
    connection: Connection, extra: str | None, address: str | None, path: str | None
) -> None:
    connection.execute("insert into sites (subdomain, extra) values ('town', %s)", [extra])
    assert found(connection, "select address, folder from site_sources") == [(address, path)]


def test_publications_list_deployers_and_their_results(connection: Connection) -> None:
    add_site(connection, documents=1)
    run = start(connection, phase=4)
    connection.execute(
        """
        with published as (
            insert into publications (subdomain, run_id, content_hash, pages)
            values ('town', %s, repeat('0', 64), 7) returning id
        )
        insert into publication_steps (publication_id, step, name, result)
        select id, step, name, result
        from published, (values ('deploy', 'local', '/a'), ('post_deploy', 'notify', 'x'), ('deploy', 'zcopy', null)) s
                        (step, name, result)
        """,
        [run],
    )
    assert found(connection, "select pages, steps from site_publications") == [(7, "local: /a; zcopy")]
