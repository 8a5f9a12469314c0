"""`clerk failures`: the grid, what helps, and the retry of exactly the group that was named."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator

import psycopg
import pytest

import clerk
from clerk import remedies
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.documents.repository import NotFetched
from clerk.errors import ClerkError, PermanentError
from clerk.ocr.errors import PdfError
from clerk.sources.http.errors import FetchError
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.engine.helpers import Worker, add_site, drain, rows, site, unit, worker


@pytest.fixture(autouse=True)
def _database(monkeypatch: pytest.MonkeyPatch, database: Url) -> None:
    monkeypatch.setenv("DATABASE_URL", database)


@pytest.fixture
def hand(database: Url) -> Iterator[Worker]:
    with worker(database, "a worker") as hand:
        yield hand


def run(hand: Worker, subdomain: str, failing: dict[int, str], stage: str = "ocr") -> None:
    """A run in which these items fail with these errors."""
    hand.connection.execute("select clerk_start_run(%s)", [subdomain])
    while job := hand.fetch():
        if job.queue == "coordinator":
            hand.coordinate(job)
            continue
        code = failing.get(job.args["content_item_id"]) if job.queue == stage else None
        assert hand.finish(job, "failed" if code else "succeeded", code or "", "so it is" if code else "")


def test_nothing_failed(clerk_command: Clerk) -> None:
    assert clerk_command("failures").out == "Nothing has failed.\n"


def test_the_grid_counts_each_failure_once_by_its_age(
    connection: psycopg.Connection, hand: Worker, clerk_command: Clerk
) -> None:
    items = add_site(connection, documents=6)
    run(hand, "town", {**dict.fromkeys(items[:4], "PdfEncrypted"), items[4]: "PdfTimeout"})
    for item, age in zip(items, ("0 min", "2 hours", "3 days", "30 days"), strict=False):
        connection.execute(
            "update content_item_pipeline_state set last_attempt_at = now() - %s::interval"
            " where content_item_id = %s and pipeline = 'ocr'",
            [age, item],
        )
    shown = clerk_command("failures")
    assert shown.code == 0
    header, encrypted, timeout, *rest = shown.out.splitlines()
    assert header.split() == ["error", "stage", "1", "h", "24", "h", "7", "d", "older", "all", "sites", "for", "good"]
    assert encrypted.split() == ["PdfEncrypted", "ocr", "1", "1", "1", "1", "4", "1", "4"]
    assert timeout.split() == ["PdfTimeout", "ocr", "1", "1", "1", "1"]
    assert "PdfEncrypted in ocr: it wants a password: ask the publisher for an open copy." in rest
    assert "  town Council 2000-01-02: so it is" in rest
    by_error = {one["error_code"]: one for one in json.loads(clerk_command("failures", "--json").out)}
    assert by_error["PdfEncrypted"]["by_age"] == {"1 h": 1, "24 h": 1, "7 d": 1, "older": 1}
    assert len(by_error["PdfEncrypted"]["examples"]) == 3
    assert by_error["PdfTimeout"]["remedy"] == remedies.REMEDIES["PdfTimeout"]


def test_only_the_group_that_was_asked_for(connection: psycopg.Connection, hand: Worker, clerk_command: Clerk) -> None:
    for name in ("town", "city"):
        items = add_site(connection, name, documents=2)
        run(hand, name, {items[0]: "PdfEncrypted", items[1]: "PdfTimeout"})
    (found,) = json.loads(clerk_command("failures", "--error", "PdfTimeout", "--site", "city", "--json").out)
    assert (found["error_code"], found["units"], found["sites"]) == ("PdfTimeout", 1, 1)
    assert json.loads(clerk_command("failures", "--stage", "deploy", "--json").out) == []


def test_retry_after_the_run_does_just_the_group(
    connection: psycopg.Connection, hand: Worker, clerk_command: Clerk
) -> None:
    items = {}
    for name in ("town", "city"):
        items[name] = add_site(connection, name, documents=3)
        run(hand, name, {items[name][0]: "ReaderCrashed", items[name][1]: "PdfEncrypted"})
    before = rows(connection, "select run_id from sites order by subdomain")
    dry = clerk_command("failures", "--error", "ReaderCrashed", "--retry", "--dry-run")
    assert dry.code == 0
    assert dry.out.endswith("(dry run, nothing was done) 2 units of 2 sites tried again\n")
    assert rows(connection, "select run_id from sites order by subdomain") == before
    shown = clerk_command("failures", "--error", "ReaderCrashed", "--retry")
    assert shown.code == 0
    assert shown.out.endswith("2 units of 2 sites tried again.\n")
    for name in ("town", "city"):
        assert site(connection, name)["ocr_total"] == 1
        assert unit(connection, items[name][0])["status"] == "pending"
        assert unit(connection, items[name][1])["status"] == "failed_terminal"
        assert unit(connection, items[name][2])["status"] == "processed"
    drain(hand)
    assert {one["error_code"] for one in json.loads(clerk_command("failures", "--json").out)} == {"PdfEncrypted"}
    assert rows(connection, "select * from invariant_violations_full") == []


def test_retry_within_the_stage_reopens_just_the_group(
    connection: psycopg.Connection, hand: Worker, clerk_command: Clerk
) -> None:
    items = add_site(connection, documents=3)
    connection.execute("select clerk_start_run('town', p_first_phase => 2)")
    for code in ("ReaderCrashed", "PdfEncrypted"):
        hand.finish(hand.take("ocr"), "failed", code)
    shown = clerk_command("failures", "--site", "town", "--error", "ReaderCrashed", "--retry", "--json")
    (retried,) = json.loads(shown.out)["sites"]
    assert retried == {"site": "town", "units": {"ocr": 1}, "run_id": site(connection)["run_id"], "problem": None}
    assert [unit(connection, item)["status"] for item in items] == ["pending", "failed_terminal", "pending"]
    drain(hand)
    assert site(connection)["outcome"] == "partial"
    assert rows(connection, "select * from invariant_violations_full") == []


def test_retry_of_two_stages_of_a_site_is_one_run(
    connection: psycopg.Connection, hand: Worker, clerk_command: Clerk
) -> None:
    """The earlier stage starts it, and the later one is taken along instead of superseding it."""
    items = add_site(connection, documents=3)
    run(hand, "town", {items[0]: "WorkerLost"})
    connection.execute("select clerk_rewind('town', 'extraction')")
    while job := hand.fetch():
        if job.queue == "coordinator":
            hand.coordinate(job)
        else:
            failed = job.queue == "extraction" and job.args["content_item_id"] == items[1]
            hand.finish(job, "failed" if failed else "succeeded", "WorkerLost" if failed else "")
    shown = clerk_command("failures", "--error", "WorkerLost", "--retry")
    assert "2 units of 1 site tried again." in shown.out
    drain(hand)
    assert clerk_command("failures").out == "Nothing has failed.\n"
    assert [row[0] for row in rows(connection, "select outcome from pipeline_runs order by run_id")] == [
        "partial",
        "partial",
        "succeeded",
    ]


def test_retry_wants_a_group_and_a_rehearsal_wants_a_retry(clerk_command: Clerk) -> None:
    assert clerk_command("failures", "--retry").code == 2
    assert clerk_command("failures", "--dry-run").code == 2
    assert clerk_command("failures", "--site", "nowhere").code == 2


# --- what helps --------------------------------------------------------------------------------------------------

_BASES = {PermanentError, PdfError, FetchError, NotFetched}
"""Never raised themselves."""


_NO_JOBS = ("clerk.legacy", "clerk.web", "clerk.ocr.page_render")


def error_classes() -> Iterator[type[Exception]]:
    """Those that a job can end with; the take-over of an older system is no job, nor is a visit to the dashboard."""
    for module in pkgutil.walk_packages(clerk.__path__, "clerk."):
        if module.name != "clerk.__main__":
            importlib.import_module(module.name)
    waiting = [Exception]
    while waiting:
        for error in waiting.pop().__subclasses__():
            waiting.append(error)
            theirs = error.__module__.startswith("clerk.") and not error.__module__.startswith(_NO_JOBS)
            if theirs and not error.__name__.startswith("_"):
                yield error


def test_every_error_of_a_job_says_what_to_do() -> None:
    names = {error.__name__ for error in error_classes() if not issubclass(error, ClerkError) and error not in _BASES}
    assert {"PdfEncrypted", "DownloadFailed", "PluginHung", "WorkerLost"} - names == {"WorkerLost"}
    assert names - set(remedies.REMEDIES) == set()


def test_every_error_that_the_database_gives_says_what_to_do(folder: SqlFolder) -> None:
    functions = [one.sql for one in folder.objects if one.kind == "function"]
    names = {name for sql in functions for name in re.findall(r"'([A-Z][a-z]+(?:[A-Z][a-z]+)+|Superseded)'", sql)}
    assert {"WorkerLost", "JobDeleted", "RunCancelled", "Superseded"} <= names
    assert names - set(remedies.REMEDIES) == set()


def test_no_remedy_is_for_an_error_that_does_not_exist(folder: SqlFolder) -> None:
    functions = " ".join(one.sql for one in folder.objects if one.kind == "function")
    names = {error.__name__ for error in error_classes()} | {"TaskNotFound"}
    assert [name for name in remedies.REMEDIES if name not in names and f"'{name}'" not in functions] == []


def test_settings_that_remedies_name_exist() -> None:
    from clerk.config import SETTINGS

    named = set(re.findall(r"CLERK_[A-Z_]+", " ".join(remedies.REMEDIES.values())))
    assert named <= {setting.name for setting in SETTINGS}
