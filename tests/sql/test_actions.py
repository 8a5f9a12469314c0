"""operator_actions has a row for every operator action that changed something, and no other rows."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from clerk.db.audit import set_actor
from clerk.pipeline import engine
from tests.cli.conftest import Clerk
from tests.cli.conftest import clerk_command as clerk_command
from tests.conftest import Url
from tests.engine.helpers import Connection, Worker, add_site, drain, finish_phase, one, rows, run_with, start, unit


@pytest.fixture
def worker(connection: Connection) -> Worker:
    return Worker(connection)


def actions(connection: Connection) -> list[tuple[Any, ...]]:
    """Read and delete them."""
    found = rows(connection, "select action, subdomain, run_id, detail from operator_actions order by id")
    connection.execute("delete from operator_actions")
    return found


def test_pauses_of_sites_and_queues(connection: Connection) -> None:
    add_site(connection)
    for _ in range(2):
        engine.pause_site(connection, "town", "me: why")
        engine.pause_queue(connection, "ocr", "me")
    for _ in range(2):
        engine.resume_site(connection, "town")
        engine.resume_queue(connection, "ocr")
    assert actions(connection) == [
        ("pause", "town", None, {"by": "me: why"}),
        ("pause", None, None, {"queue": "ocr", "by": "me"}),
        ("resume", "town", None, {}),
        ("resume", None, None, {"queue": "ocr"}),
    ]


def test_ending_and_replacing_a_run(connection: Connection) -> None:
    add_site(connection)
    first = engine.start_run(connection, "town")
    assert actions(connection) == [], "starting a run is not an operator action"
    second = engine.start_run(connection, "town", "again", supersede=True)
    third = engine.rewind(connection, "town", "ocr")
    assert one(connection, f"select force_ocr from pipeline_runs where run_id = {third}") is False
    assert engine.cancel_run(connection, "town", "enough") == third
    assert engine.cancel_run(connection, "town", "enough") is None
    assert actions(connection) == [
        ("supersede", "town", second, {"superseded": first, "reason": "again"}),
        ("rewind", "town", third, {"stage": "ocr"}),
        ("cancel", "town", third, {"reason": "enough"}),
    ]
    engine.start_run(connection, "town", "again", supersede=True)
    assert actions(connection) == [], "there was none to supersede"


def test_forced_ocr(connection: Connection) -> None:
    add_site(connection)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="when rewinding to compilation"):
        engine.rewind(connection, "town", "compilation", force_ocr=True)
    run = engine.rewind(connection, "town", "ocr", force_ocr=True)
    assert rows(connection, "select run_id, force_ocr from pipeline_runs") == [(run, True)]
    assert actions(connection) == [("rewind", "town", run, {"stage": "ocr", "force_ocr": True})]


def test_option_force_ocr(
    connection: Connection, database: Url, monkeypatch: pytest.MonkeyPatch, clerk_command: Clerk
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    add_site(connection)
    outcome = clerk_command("rewind", "town", "--to", "deploy", "--force-ocr")
    assert (outcome.code, "--force-ocr needs --to ocr" in outcome.err) == (2, True)
    outcome = clerk_command("rewind", "town", "--to", "ocr", "--force-ocr")
    assert outcome.code == 0
    assert "starts with ocr, every page by OCR" in outcome.out
    assert rows(connection, "select force_ocr from pipeline_runs") == [(True,)]


def test_a_retry_within_the_stage_and_after_it(connection: Connection, worker: Worker) -> None:
    first, second = add_site(connection, documents=2)
    run = start(connection, phase=2)
    assert engine.retry_failed(connection, "town").units == 0
    assert actions(connection) == [], "nothing had failed"
    worker.finish(worker.take("ocr"), "failed")
    engine.retry_failed(connection, "town")
    assert actions(connection) == [("retry", "town", run, {"stage": "ocr", "units": 1})]
    worker.retry(worker.take("ocr"), at=datetime.now(UTC) + timedelta(hours=1))
    engine.retry_failed(connection, "town")
    assert actions(connection) == [("retry", "town", run, {"stage": None, "expedited": 1})]
    finish_phase(worker, failing=(first,))
    later = engine.retry_units(connection, "town", "ocr", [first, second])
    assert later.run_id != run
    assert actions(connection) == [("retry", "town", later.run_id, {"stage": "ocr", "units": 1})], "not supersede too"


def test_a_job_retried_with_other_tools(connection: Connection, worker: Worker) -> None:
    (item,) = add_site(connection, documents=1)
    assert run_with(worker, "ocr").startswith("failed")
    job = unit(connection, item)["job_id"]
    connection.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job])
    ((action, subdomain, _, detail),) = actions(connection)
    assert (action, subdomain, detail) == (
        "retry",
        "town",
        {"stage": "ocr", "units": 1, "content_item_id": item, "job_id": job},
    )


def test_the_pipeline_itself_writes_no_action(connection: Connection, worker: Worker) -> None:
    add_site(connection)
    engine.start_next_due_site(connection)
    drain(worker)
    connection.execute("update sites set dirty = true")
    engine.start_refresh_run(connection, "town")
    engine.abandon_run(connection, "town", one(connection, "select run_id from sites"), "no progress")
    assert actions(connection) == []


def test_reconciliation_now(connection: Connection) -> None:
    assert [engine.defer_reconciliation(connection) for _ in range(2)] == [True, False]
    assert actions(connection) == [("reconcile", None, None, {})]
    connection.execute("update procrastinate_jobs set status = 'doing'")
    assert engine.defer_reconciliation(connection), "a running one may have checked that site already"


def test_actor(connection: Connection) -> None:
    add_site(connection)
    engine.pause_site(connection, "town", "me")
    set_actor(connection, "dashboard", "ada")
    engine.resume_site(connection, "town")
    user = one(connection, "select session_user")
    seen = rows(connection, "select actor, via, action from recent_actions")
    assert seen == [("ada", "dashboard", "resume"), (user, "sql", "pause")]


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        (["update", "town", "--supersede"], "update, supersede"),
        (["retry", "town"], "retry"),
        (["failures", "--site", "town", "--retry"], "retry"),
        (["cancel", "town"], "cancel"),
        (["rewind", "town", "--to", "ocr"], "rewind"),
        (["pause", "town"], "pause"),
        (["pause", "--queue", "ocr"], "pause"),
        (["site", "remove", "town", "--yes"], "remove site, cancel"),
    ],
)
def test_commands_record_the_actor_and_dry_runs_record_nothing(
    connection: Connection,
    worker: Worker,
    database: Url,
    monkeypatch: pytest.MonkeyPatch,
    clerk_command: Clerk,
    command: list[str],
    actions: str,
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    add_site(connection)
    start(connection, phase=2)
    worker.finish(worker.take("ocr"), "failed")
    assert clerk_command(*command, "--dry-run").code == 0
    assert rows(connection, "select 1 from operator_actions") == []
    assert clerk_command(*command).code == 0
    assert rows(connection, "select actor, via, action from recent_actions") == [
        (getpass.getuser(), "cli", action) for action in actions.split(", ")
    ]
