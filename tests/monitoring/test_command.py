"""`clerk why` as a person types it, and with real workers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import clerk.monitoring
from clerk.db.connection import read_only_snapshot
from clerk.monitoring.alerts import find_alerts
from clerk.monitoring.explain import explain
from clerk.monitoring.site_state import read_site_state
from clerk.monitoring.status import read_status
from clerk.pipeline import engine
from tests.cli.conftest import Clerk
from tests.cli.conftest import clerk_command as clerk_command
from tests.conftest import Url
from tests.engine.helpers import add_site
from tests.faults.pipeline import Pipeline, pipeline_on
from tests.helpers import until
from tests.monitoring.conftest import Why


@pytest.fixture(autouse=True)
def _database(monkeypatch: pytest.MonkeyPatch, database: Url) -> None:
    monkeypatch.setenv("DATABASE_URL", database)


def test_the_sentence_comes_first_then_what_to_do_then_the_evidence(
    connection: psycopg.Connection, clerk_command: Clerk
) -> None:
    add_site(connection, documents=2)
    engine.start_run(connection, "town", first_phase=2)
    shown = clerk_command("why", "town")
    assert shown.code == 0
    sentence, remedy, *evidence = shown.out.splitlines()
    assert sentence == "town: nothing reads queue ocr: no worker alive; waiting for 2 of 2 documents."
    assert remedy == "→ start one: clerk worker --queues ocr"
    assert "  ocr 0/2" in evidence


def test_json(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    add_site(connection)
    shown = json.loads(clerk_command("why", "town", "--json").out)
    assert shown["site"] == "town"
    assert shown["because"] == "never_run"
    assert set(shown) == {"site", "because", "sentence", "remedy", "evidence"}


def test_an_unknown_site_names_its_likes(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    for name in ("springfield", "springvale", "metropolis"):
        add_site(connection, name)
    shown = clerk_command("why", "sprngfield")
    assert shown.code == 2
    assert shown.err == "clerk: there is no site sprngfield: did you mean springfield or springvale?\n"
    assert clerk_command("why", "zzz").err == "clerk: there is no site zzz: `clerk site list` shows the names.\n"


def test_a_disabled_trigger_is_the_answer_and_no_refusal(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    add_site(connection)
    connection.execute("alter table procrastinate_jobs disable trigger clerk_record_change")
    shown = clerk_command("why", "town")
    assert shown.code == 0
    assert shown.out.startswith("town: nothing moves: trigger clerk_record_change is disabled")


@pytest.fixture
def pipeline(database: Url, tmp_path: Path) -> Iterator[Pipeline]:
    with pipeline_on(database, tmp_path) as pipeline:
        yield pipeline


def test_real_workers_say_what_they_read(pipeline: Pipeline, why: Why) -> None:
    """The stock command line, one worker for reading: its page, and who waits for whom."""
    (first, *_) = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", first, "pages:...|.")
    pipeline.start_run(first_phase=2)
    reader = pipeline.worker("ocr")
    until(lambda: "page 3 of 5" in why("anytown").sentence)
    sentence = why("anytown").sentence
    (worker,) = pipeline.rows("select worker_id, queues from worker_processes")
    assert worker[1] == ["ocr"]
    assert sentence.startswith(f"waiting for 2 of 2 documents; 1 is being read (worker {worker[0]} on ")
    assert f"1 waits in queue ocr, next in line (read by worker {worker[0]} on " in sentence
    pipeline.open_gate("page")
    until(lambda: why("anytown").because == "coordinator_nothing_reads")
    assert "nothing reads queue coordinator: the worker alive reads ocr only" in why("anytown").sentence
    assert reader.stop() == 0
    assert "nothing reads queue coordinator: no worker alive" in why("anytown").sentence
    assert pipeline.rows("select * from worker_processes") == []


def test_a_pruned_worker_says_it_again(pipeline: Pipeline, why: Why) -> None:
    pipeline.add_site(documents=1)
    pipeline.worker("ocr", "coordinator")
    until(lambda: pipeline.rows("select from worker_processes"))
    pipeline.connection.execute("delete from procrastinate_workers")
    assert until(lambda: pipeline.rows("select queues from worker_processes")) == [(["ocr", "coordinator"],)]


def test_every_word_for_programs_is_documented() -> None:
    package = Path(clerk.monitoring.__file__).parent
    words = {word for file in package.glob("*.py") for word in re.findall(r'Clause\(\s*"(\w+)"', file.read_text())}
    page = (package.parents[1] / "docs" / "operating.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(\w+)`", page)) | {"coordinator_retry", "coordinator_no_job", "ended"}
    assert {"nothing_reads", "lease_over", "dirty"} <= words
    assert words <= documented


def test_a_dashboard_that_may_only_read_the_views_can_ask_the_same(connection: psycopg.Connection) -> None:
    add_site(connection, documents=2)
    engine.start_run(connection, "town", first_phase=2)
    with read_only_snapshot(connection):
        connection.execute("set local role clerk_dashboard")
        facts = read_site_state(connection, "town")
        condition = read_status(connection)
    assert facts is not None
    assert explain(facts).because == "nothing_reads"
    assert [one.kind for one in find_alerts(condition)] == ["nothing_reads"]
