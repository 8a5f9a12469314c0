"""The columns of legacy clerk, read as its web site reads them, during a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from clerk.pipeline import engine
from tests.db.legacy import COUNTERS
from tests.engine.helpers import Connection, Worker, add_site, finish_phase, one, run_with

_AS_THE_WEB_SITE_DOES = (
    f"select subdomain, name, status, extraction_status, last_updated, last_deployed, last_extracted, current_stage,"
    f" started_at, updated_at, coordinator_enqueued, {', '.join(COUNTERS)} from sites where subdomain = %s"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def seen(connection: Connection, subdomain: str = "town") -> dict[str, Any]:
    cursor = connection.execute(_AS_THE_WEB_SITE_DOES, [subdomain])
    names = [column.name for column in cursor.description or ()]
    row = cursor.fetchone()
    assert row is not None
    return dict(zip(names, row, strict=True))


@pytest.fixture
def worker(new_worker: Callable[[str], Worker]) -> Worker:
    return new_worker("worker")


def test_status_follows_a_run(worker: Worker) -> None:
    connection = worker.connection
    add_site(connection)
    assert seen(connection)["status"] == "new"
    engine.start_run(connection, "town")
    words = [seen(connection)["status"]]
    while seen(connection)["current_stage"] != "completed":
        if words[-1] == "extracting":
            assert seen(connection)["extraction_status"] == "in_progress"
        finish_phase(worker)
        words.append(seen(connection)["status"])
    assert words == ["fetching", "needs_ocr", "extracting", "needs_deploy", "deployed"]
    after = seen(connection)
    assert after["extraction_status"] == "completed"
    for column in ("last_updated", "last_deployed", "last_extracted"):
        assert _TIME.fullmatch(after[column]), column
    written = one(
        connection,
        "select abs(extract(epoch from last_deployed::timestamp at time zone 'UTC' - updated_at)) <= 1 from sites",
    )
    assert written, "in UTC"


def test_a_failed_run_keeps_the_site_deployed(worker: Worker) -> None:
    connection = worker.connection
    add_site(connection)
    assert run_with(worker).startswith("succeeded")
    connection.execute("update sites set last_deployed = '2024-05-01T10:00:00'")
    engine.rewind(connection, "town", "extraction")
    assert seen(connection)["status"] == "extracting"
    for _ in range(2):
        worker.finish(worker.take("extraction"), "failed")
    worker.finish(worker.take("compilation"), "failed")
    worker.coordinate(worker.take("coordinator"))
    after = seen(connection)
    assert (after["status"], after["last_deployed"]) == ("deployed", "2024-05-01T10:00:00")
    assert after["extraction_status"] == "failed"


def test_a_site_that_was_never_deployed_keeps_its_status(worker: Worker) -> None:
    connection = worker.connection
    add_site(connection)
    connection.execute("update sites set last_deployed = ''")
    assert run_with(worker, "ocr").startswith("failed")
    assert seen(connection)["status"] == "needs_ocr"
    assert seen(connection)["last_deployed"] == ""


def test_no_documents_and_unchanged_are_distinguished(worker: Worker) -> None:
    connection = worker.connection
    add_site(connection, documents=0)
    assert run_with(worker).startswith("no_documents")
    assert seen(connection)["status"] == "no_documents"
    add_site(connection, "village", documents=1)
    engine.start_run(connection, "village")
    for _ in range(4):
        finish_phase(worker)
    connection.execute("update sites set last_deployed = '2024-05-01T10:00:00'")
    engine.start_run(connection, "village")
    finish_phase(worker)
    worker.coordinate(worker.take("coordinator"))
    assert seen(connection, "village")["current_stage"] == "completed"
    assert seen(connection, "village")["status"] == "deployed"
    assert seen(connection, "village")["last_deployed"] == "2024-05-01T10:00:00", "nothing was published"


def test_a_run_that_begins_in_the_stage_of_legacy_clerk_corrects_the_status(connection: Connection) -> None:
    connection.execute(
        "insert into sites (subdomain, current_stage, status, extraction_status) values"
        " ('town', 'ocr', 'extracting', 'in_progress'), ('village', 'fetch', 'deployed', 'completed')"
    )
    document = {"kind": "minutes", "meeting": "Council", "date": "2020-01-01", "occurrence": 1, "revision": 1,
                "status": "pending"}  # fmt: skip
    engine.import_legacy_site(connection, "town", Jsonb([document]), 2)
    engine.start_run(connection, "village")
    town, village = seen(connection), seen(connection, "village")
    assert (town["current_stage"], town["status"], town["extraction_status"]) == ("ocr", "needs_ocr", "pending")
    assert (town["ocr_total"], town["ocr_completed"], town["coordinator_enqueued"]) == (1, 0, False)
    assert (village["status"], village["extraction_status"]) == ("fetching", "completed")
    assert _TIME.fullmatch(town["last_updated"])


def test_the_status_of_an_inserted_site_is_kept(connection: Connection) -> None:
    connection.execute("insert into sites (subdomain, status) values ('town', 'needs_deploy')")
    assert seen(connection)["status"] == "needs_deploy"


def test_counter_updates_do_not_call_the_trigger_function(worker: Worker) -> None:
    """For a unit that is not the last of its phase."""
    connection = worker.connection
    add_site(connection, documents=3)
    engine.start_run(connection, "town")
    finish_phase(worker)
    calls = "select pg_stat_get_xact_function_calls('clerk_sync_legacy_columns'::regproc)"
    with connection.transaction():
        connection.execute("set local track_functions = 'all'")
        assert worker.finish(worker.take("ocr"))
        assert one(connection, calls) is None
        connection.execute("update sites set current_stage = 'deploy'")
        assert one(connection, calls) == 1, "the test counts calls"
