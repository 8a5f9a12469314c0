"""`clerk why` on the command line, and with real workers."""

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


def test_the_output_is_sentence_remedy_and_evidence(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    add_site(connection, documents=2)
    engine.start_run(connection, "town", first_phase=2)
    result = clerk_command("why", "town")
    assert result.code == 0
    sentence, remedy, *evidence = result.out.splitlines()
    assert (
        sentence
        == "town: no worker processes queue ocr: no worker is alive; the run waits for the OCR of 2 of 2 documents."
    )
    assert remedy == "→ start workers: clerk worker, or everything: clerk up"
    assert "  ocr 0/2" in evidence


def test_json(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    add_site(connection)
    result = json.loads(clerk_command("why", "town", "--json").out)
    assert result["site"] == "town"
    assert result["because"] == "never_run"
    assert set(result) == {"site", "because", "sentence", "remedy", "evidence"}


def test_an_unknown_site_suggests_similar_names(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    for name in ("springfield", "springvale", "metropolis"):
        add_site(connection, name)
    result = clerk_command("why", "sprngfield")
    assert result.code == 2
    assert result.err == "clerk: no site sprngfield; did you mean springfield?\n"
    assert clerk_command("why", "zzz").err == "clerk: no site zzz: `clerk site list` shows the names.\n"


def test_a_disabled_trigger_is_reported_and_no_error(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    add_site(connection)
    connection.execute("alter table procrastinate_jobs disable trigger clerk_record_change")
    result = clerk_command("why", "town")
    assert result.code == 0
    assert result.out.startswith("town: trigger clerk_record_change is disabled, so finished jobs are not recorded")


@pytest.fixture
def pipeline(database: Url, tmp_path: Path) -> Iterator[Pipeline]:
    with pipeline_on(database, tmp_path) as pipeline:
        yield pipeline


def test_real_workers_register_their_queues(pipeline: Pipeline, why: Why) -> None:
    """With the command line of Procrastinate, and one worker for OCR only."""
    (first, *_) = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", first, "pages:...|.")
    pipeline.start_run(first_phase=2)
    ocr_worker = pipeline.worker("ocr")
    until(lambda: "page 3 of 5" in why("anytown").sentence, 200)
    sentence = why("anytown").sentence
    (worker,) = pipeline.rows("select worker_id, queues from worker_processes")
    assert worker[1] == ["ocr"]
    assert sentence.startswith(f"the run waits for the OCR of 2 of 2 documents; 1 is running (worker {worker[0]} on ")
    assert f"1 waits in queue ocr, next in line (processed by worker {worker[0]} on " in sentence
    pipeline.open_gate("page")
    until(lambda: why("anytown").because == "coordinator_no_worker", 200)
    assert "no worker processes queue coordinator: the live worker processes only ocr" in why("anytown").sentence
    assert ocr_worker.stop() == 0
    assert "no worker processes queue coordinator: no worker is alive" in why("anytown").sentence
    assert pipeline.rows("select * from worker_processes") == []


def test_a_pruned_worker_registers_again(pipeline: Pipeline, why: Why) -> None:
    pipeline.add_site(documents=1)
    pipeline.worker("ocr", "coordinator")
    until(lambda: pipeline.rows("select from worker_processes"), 200)
    pipeline.connection.execute("delete from procrastinate_workers")
    assert until(lambda: pipeline.rows("select queues from worker_processes"), 200) == [(["ocr", "coordinator"],)]


def test_every_code_is_documented() -> None:
    package = Path(clerk.monitoring.__file__).parent
    codes = {code for file in package.glob("*.py") for code in re.findall(r'Reason\(\s*"(\w+)"', file.read_text())}
    page = (package.parents[1] / "docs" / "operating.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(\w+)`", page)) | {"coordinator_retry", "coordinator_no_job", "ended"}
    assert {"no_worker", "lease_expired", "dirty"} <= codes
    assert codes <= documented


def test_the_read_models_need_the_rights_of_the_dashboard_only(connection: psycopg.Connection) -> None:
    add_site(connection, documents=2)
    engine.start_run(connection, "town", first_phase=2)
    with read_only_snapshot(connection):
        connection.execute("set local role clerk_dashboard")
        state = read_site_state(connection, "town")
        status = read_status(connection)
    assert state is not None
    assert explain(state).because == "no_worker"
    assert [alert.kind for alert in find_alerts(status)] == ["no_worker"]


def test_update_starts_several_sites_and_says_what_prevents_it(
    connection: psycopg.Connection, clerk_command: Clerk
) -> None:
    for name in ("town", "city"):
        add_site(connection, name)
    connection.execute("select clerk_pause_site('town', 'me')")
    result = clerk_command("update", "town", "city")
    assert result.code == 0
    assert re.fullmatch(r"city: run \d+ started\ntown: run \d+ started\n", result.out)
    city, town = result.err.splitlines()
    assert city.startswith("clerk: city waits: no worker processes queue fetch: no worker is alive; ")
    assert town.startswith("clerk: town waits: the site is paused by ")
    assert town.endswith(" → clerk resume town")
    assert clerk_command("update", "town", "nowhere").code == 2
