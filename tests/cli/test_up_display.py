"""Displays of `clerk up`: on a terminal, and rendered from a status."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import psycopg
import pytest
from rich.console import Console

from clerk.cli.up_display import Endpoints, Event, list_events, render
from clerk.db.connection import read_only_snapshot
from clerk.monitoring.status import PipelineStatus, read_status
from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES
from clerk.stage_names import STAGE_NAMES
from tests.cli.terminal import run_on_terminal
from tests.conftest import Url
from tests.engine.helpers import add_site, connect_worker, run_with

WIDTH, HEIGHT = 90, 30
ENDPOINTS = Endpoints("http://127.0.0.1:8010/", "embedded", "up.log")


def read(connection: psycopg.Connection) -> PipelineStatus:
    with read_only_snapshot(connection):
        return read_status(connection)


def lines(status: PipelineStatus, events: list[Event], state: str = "is up") -> list[str]:
    console = Console(file=io.StringIO(), width=WIDTH, force_terminal=False)
    with console.capture() as capture:
        console.print(render(ENDPOINTS, status, state, events))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_terminal_is_redrawn_in_place_and_the_log_goes_to_a_file(
    database: Url, connection: psycopg.Connection, tmp_path: Path
) -> None:
    add_site(connection, documents=2)
    engine.start_run(connection, "town", first_phase=2)
    home = tmp_path / "home"
    environment = {"DATABASE_URL": database, "CLERK_HOME": str(home)}
    command = ("-m", "clerk", "up", "--processes", "1", "--no-dashboard")
    with run_on_terminal(*command, environment=environment, size=(WIDTH, HEIGHT)) as terminal:
        # The documents have no files: they fail, and the run ends.
        terminal.wait_for("town: run ended: failed")
        terminal.wait_for("clerk is up")
        screen = terminal.lines
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait_for_end() == 0
    assert [line for line in screen if line.startswith("clerk is ")] == [screen[1]], "below the line Starting"
    assert len(screen) <= HEIGHT
    assert max(len(line) for line in screen) <= WIDTH
    assert set(STAGE_NAMES.values()) <= {line.split()[0] for line in screen if line}
    assert terminal.lines[-1] == "clerk has stopped."
    assert terminal.written.rindex("\033[?25h") > terminal.written.rindex("\033[?25l"), "the cursor is visible again"
    assert "Starting worker" in (home / "up.log").read_text()
    assert "Starting worker" not in terminal.written


def test_without_sites(connection: psycopg.Connection) -> None:
    status = read(connection)
    assert [stage["stage"] for stage in status.stages] == list(STAGES)
    assert (status.open_jobs, list_events(status), status.sites) == (0, [], {})
    screen = lines(status, [])
    assert screen[0].startswith("clerk is up")
    assert "  dashboard  http://127.0.0.1:8010/" in screen
    assert any("no sites" in line for line in screen)


def test_while_workers_start_none_is_missing(connection: psycopg.Connection) -> None:
    add_site(connection, documents=1)
    engine.start_run(connection, "town")
    status = read(connection)
    assert any("no worker processes queue fetch" in line for line in lines(status, []))
    assert not any("no worker" in line for line in lines(status, [], "is starting"))


def test_counts_and_events(database: Url, connection: psycopg.Connection) -> None:
    items = add_site(connection, documents=3)
    with connect_worker(database, "0123456789ab clerk 77 machine-a") as worker:
        run_with(worker, "ocr", items=tuple(items[:2]))
        status = read(connection)
        (ocr,) = [line.split() for line in lines(status, []) if line.startswith("  OCR")]
        assert ocr == ["OCR", "·", "·", "1", "of", "3", "2", "3"]
        assert status.sites == {"completed": 1}
        texts = [event.text for event in list_events(status)]
        assert texts[0].startswith("town: run ended: partial: ")
        assert texts[0].endswith(" (1 document processed, 2 failed)")
        assert any(text.startswith("town: OCR of 2 documents failed: PdfBroken") for text in texts)
        engine.start_run(connection, "town")
        status = read(connection)
        assert status.open_jobs == 1
        (fetch,) = [line.split() for line in lines(status, []) if line.startswith("  Fetch")]
        assert fetch[:3] == ["Fetch", "1", "·"]
        assert any(line.startswith("  1 site: 1 in Fetch; ") for line in lines(status, []))
        assert [row.worker_id for row in status.workers] == [worker.number]


@pytest.mark.parametrize("message", ["a\033[2Jb", "a\x9bHb"])
def test_control_characters_are_replaced(connection: psycopg.Connection, message: str) -> None:
    status = read(connection)
    screen = lines(status, [Event(status.now, message)])[-1]
    assert screen.endswith(message.replace("\033", "?").replace("\x9b", "?"))
