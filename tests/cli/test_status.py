"""`clerk status`."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rich.console import Console

from clerk.cli.output import marked
from clerk.pipeline import engine
from tests.cli.conftest import Clerk
from tests.cli.terminal import ROOT, run_on_terminal
from tests.conftest import Url
from tests.engine.helpers import Worker, add_site, connect_worker, run_with
from tests.monitoring.workers import die, register


@pytest.fixture(autouse=True)
def _database(monkeypatch: pytest.MonkeyPatch, database: Url) -> None:
    monkeypatch.setenv("DATABASE_URL", database)


@pytest.fixture
def worker(database: Url) -> Iterator[Worker]:
    with connect_worker(database, "0123456789ab clerk 77 machine-a") as worker:
        yield worker


def test_without_sites(clerk_command: Clerk) -> None:
    result = clerk_command("status")
    assert result.code == 0
    assert result.out.startswith("0 sites. Add one with `clerk site add`.\n\nNothing needs attention.\n")


def test_alerts_come_first_then_stages(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    add_site(connection, documents=4)
    engine.start_run(connection, "town", first_phase=2)
    result = clerk_command("status").out
    assert result.splitlines()[0].startswith("1 site: 1 running; no run has ended yet")
    assert result.index("! no worker processes queue ocr: no worker is alive; 4 jobs wait") < result.index("stages")
    (ocr,) = [line.split() for line in result.splitlines() if line.startswith("  OCR ") and "/" in line]
    assert ocr == ["OCR", "1", "0/4"]


def test_a_queue_that_cannot_move_has_no_end(
    connection: psycopg.Connection, worker: Worker, clerk_command: Clerk
) -> None:
    """An ETA, a running job and a worker were shown while nothing could be processed."""
    add_site(connection, documents=9)
    engine.start_run(connection, "town", first_phase=2)
    register(worker, "ocr")
    for _ in range(6):
        worker.finish(worker.take("ocr"))
    worker.take("ocr")

    def lines() -> tuple[list[str], list[str]]:
        shown = clerk_command("status").out.splitlines()
        stage = next(line for line in shown if line.startswith("  OCR ") and "/" in line)
        return stage.split(), next(line for line in shown if line.startswith("  ocr ")).split()

    stage, queue = lines()
    assert "in" in stage, "six ended, one runs, two wait"
    assert queue[1:5] + queue[-1:] == ["2", "0", "0", "1", "1"]
    connection.execute(
        "insert into host_problems (worker_id, queue, error_code, message) values (%s, 'ocr', 'DiskFull', 'full')",
        [worker.number],
    )
    stage, queue = lines()
    assert "in" not in stage
    assert " ".join(queue).endswith("0 of 1 waits for the machine (DiskFull)")
    connection.execute("delete from host_problems")
    die(connection, worker)
    other = connection.execute("select procrastinate_register_worker_v1()").fetchone()
    assert other is not None
    connection.execute(
        "insert into worker_processes (worker_id, holder, queues) values (%s, 'x clerk 1 b', array['ocr'])", other
    )
    stage, queue = lines()
    assert "in" not in stage
    assert queue[4] == "0", "its worker is dead"
    assert " ".join(queue).endswith("1 waits for the rescue of 1 job of dead workers")


def test_the_explanation_of_alerts_is_in_an_existing_file(
    connection: psycopg.Connection, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine.pause_queue(connection, "ocr", "anna")
    for folder, file in ((ROOT, Path("docs/runbooks/alerts.md")), (tmp_path, ROOT / "docs/runbooks/alerts.md")):
        monkeypatch.chdir(folder)
        explained = f"explained under queue_paused in {file}, and by `clerk dashboard` at /runbooks/alerts"
        assert f"  {explained}\n" in clerk_command("status").out
        assert "### queue_paused\n" in file.read_text(encoding="utf-8")


def test_pipeline_status_is_the_same_command(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    add_site(connection)
    assert clerk_command("pipeline-status").out == clerk_command("status").out
    assert "\n  pipeline-status " in clerk_command("--help").out


def test_json_has_everything(connection: psycopg.Connection, worker: Worker, clerk_command: Clerk) -> None:
    add_site(connection, documents=1)
    run_with(worker)
    result = json.loads(clerk_command("status", "--json").out)
    assert set(result) == {
        *(
            "attention",
            "now",
            "health",
            "stages",
            "outcomes",
            "queues",
            "workers",
            "stuck",
            "paused",
            "failed",
            "skipped",
            "errors",
            "events",
            "sites",
        ),
        *("failures_last_hour", "failures_per_hour_before", "runs_last_day", "violations", "triggers"),
        *("database", "standby_wait", "due", "failing", "documents", "deliveries", "disks", "edited_extractors"),
        "periodic_tasks",
    }
    assert result["outcomes"] == {"succeeded": 1}
    assert [stage["stage"] for stage in result["stages"]] == ["fetch", "ocr", "compilation", "extraction", "deploy"]
    assert result["workers"][0]["worker_id"] == worker.number


def test_failed_documents_of_a_site_come_first(
    connection: psycopg.Connection, worker: Worker, clerk_command: Clerk
) -> None:
    items = add_site(connection, documents=30)
    connection.execute("update content_items set source_url = 'file:///srv/5%%20May.pdf' where id = %s", [items[0]])
    run_with(worker, "ocr", items=(items[0],))
    result = clerk_command("status", "town").out
    assert result.startswith("town: the run finished with 1 failed document at ")
    assert "Council 2000-01-02 (5 May.pdf: PdfBroken)" in result
    assert "\n30 documents: 29 processed, 1 failed; 0 pages\n" in result
    lines = result[result.index("  id  document") :].splitlines()
    assert lines[1].split()[:6] == [str(items[0]), "Council", "2000-01-02", "OCR", "failed", "1"]
    assert lines[1].endswith("5 May.pdf: PdfBroken")
    assert "  and 10 more (--all)" in lines
    assert "partial" in lines[-1]
    assert "1 document unread" in lines[-1]
    everything = clerk_command("status", "town", "--all").out
    assert everything.count("Council 2000-") == 31
    assert "\n  ocr Council 2000-01-02 (5 May.pdf): failed, PdfBroken" in clerk_command("why", "town").out
    assert "more (--all)" not in everything


def test_runs_are_cut_and_counted(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    add_site(connection, documents=1)
    for _ in range(12):
        engine.start_run(connection, "town", supersede=True)
    result = clerk_command("status", "town").out
    assert "\n12 runs\n" in result
    assert "  and 2 more (--all)" in result
    assert len(json.loads(clerk_command("status", "town", "--all", "--json").out)["runs"]) == 12


def test_skipped_entries_are_listed(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    add_site(connection, documents=1)
    engine.start_run(connection, "town")
    assert "of the source skipped" not in clerk_command("status", "town").out
    connection.execute(
        "update pipeline_runs set skipped = 3, skipped_examples = array['a.pdf: no date', 'b.pdf: none']"
    )
    result = clerk_command("status", "town").out
    listed = (
        "\n3 entries of the source skipped\n  a.pdf: no date\n  b.pdf: none\n  and 1 more (clerk site skipped town)\n"
    )
    assert listed in result
    header, run = result.splitlines()[-2:]
    assert run[: header.index("skipped") + len("skipped")].split()[-1] == "3"
    (run_as_json,) = json.loads(clerk_command("status", "town", "--json").out)["runs"]
    assert (run_as_json["skipped"], run_as_json["skipped_examples"]) == (3, ["a.pdf: no date", "b.pdf: none"])


def test_a_remedy_is_wrapped_below_its_mark_and_not_cut() -> None:
    console = Console(width=20, file=io.StringIO())
    with console.capture() as capture:
        console.print(marked("→ ", "see each: clerk failures"))
    assert [row.rstrip() for row in capture.get().splitlines()] == ["→ see each: clerk", "  failures"]


def test_an_unknown_site(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    add_site(connection, "springfield")
    result = clerk_command("status", "springfeld")
    assert result.code == 2
    assert result.err == "clerk: no site springfeld; did you mean springfield?\n"


def test_all_needs_a_site(clerk_command: Clerk) -> None:
    assert clerk_command("status", "--all").code == 2


@pytest.mark.parametrize("as_json", [False, True])
def test_watch_in_a_pipe_prints_one_line_per_update(
    connection: psycopg.Connection, database: Url, as_json: bool
) -> None:
    add_site(connection)
    command = [sys.executable, "-m", "clerk", "status", "--watch", "0.5", *(["--json"] if as_json else [])]
    environment = {**os.environ, "DATABASE_URL": database, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in (process.stdout.readline(), process.stdout.readline()):
            if as_json:
                assert json.loads(line)["health"]["sites"] == 1
            else:
                assert "0 of 1 site running, 0 jobs waiting, 0 running; 1 problem needs attention: no worker" in line
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 0


def test_watch_on_a_terminal_redraws_in_place_until_interrupted(connection: psycopg.Connection, database: Url) -> None:
    add_site(connection)
    environment = {"DATABASE_URL": database}
    with run_on_terminal("-m", "clerk", "status", "--watch", "0.5", environment=environment) as terminal:
        terminal.wait_for_output("1 site: 1 never run", count=2)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait_for_end() == 0
    assert "Traceback" not in terminal.written
    assert [line for line in terminal.lines if line.startswith("1 site: ")] == [terminal.lines[0]]


def test_ten_thousand_sites_are_counted_not_listed(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    connection.execute(
        "insert into sites (subdomain, name) select 'town' || n, 'Town' from generate_series(1, 10000) n"
    )
    connection.execute(
        "insert into pipeline_runs (subdomain, reason, started_at)"
        " select subdomain, 'made up', now() - interval '5 hours' from sites"
    )
    connection.execute(
        "update sites s set run_id = r.run_id, current_stage = 'ocr', ocr_total = 5, started_at = r.started_at,"
        " updated_at = r.started_at from pipeline_runs r where r.subdomain = s.subdomain"
    )
    result = clerk_command("status").out
    assert "! 10,000 sites are stuck: " in result
    assert " and 9,997 more" in result
    assert len(result.splitlines()) < 60
    as_json = json.loads(clerk_command("status", "--json").out)
    assert as_json["health"]["stuck"] == 10_000
    assert len(as_json["stuck"]) == 10


def test_a_site_with_counters_and_no_run(connection: psycopg.Connection, clerk_command: Clerk) -> None:
    """As the helpers for scripts of legacy clerk leave it."""
    connection.execute("insert into sites (subdomain, current_stage, ocr_total) values ('town', 'ocr', 5)")
    result = clerk_command("status", "town").out
    assert "None" not in result
    assert "counters of the site, without a run" in result
