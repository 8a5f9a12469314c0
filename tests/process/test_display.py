"""What `clerk up` shows: on a real terminal, and drawn from a pulse that was read from a real database."""

from __future__ import annotations

import re
import signal
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from clerk.cli.screen import Screen
from clerk.cli.up_display import Endpoints, picture
from clerk.monitoring.live_status import Event, LiveStatus, Stage, read_live_status
from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES
from tests.cli.screen import on_a_terminal
from tests.conftest import Url
from tests.engine.helpers import add_site, run_with, worker
from tests.process.helpers import until

WIDTH, HEIGHT = 90, 30
PLACE = Endpoints("http://127.0.0.1:8010/", "clerk's own", "up.log")
_CONTROL = re.compile(r"\x1b\[\??[0-9;]*[A-Za-z]")


def pictures(written: str) -> list[list[str]]:
    """Each as its lines: what came between two marks that terminals show as one."""
    return [
        _CONTROL.sub("", one).replace("\r", "").split("\n")
        for one in re.findall(r"\x1b\[\?2026h(.*?)\x1b\[\?2026l", written, re.DOTALL)
    ]


def test_a_terminal_is_written_over_in_place_and_the_log_stays_away(
    database: Url, connection: psycopg.Connection, tmp_path: Path
) -> None:
    add_site(connection, documents=2)
    engine.start_run(connection, "town", first_phase=2)
    home = tmp_path / "home"
    environment = {"DATABASE_URL": database, "CLERK_HOME": str(home)}
    command = ("-m", "clerk", "up", "--workers", "1", "--no-dashboard")
    with on_a_terminal(*command, environment=environment, size=(WIDTH, HEIGHT)) as screen:
        # Its documents have no files: they fail, and the run ends.
        until(lambda: screen.shows("town: failed"))
        until(lambda: screen.shows("clerk is up"))
        screen.process.send_signal(signal.SIGINT)
        assert screen.to_the_end() == 0
    drawn = pictures(screen.written)
    assert len(drawn) > 1
    assert screen.written.count("\033[2J") == 1, "cleared once, then written over"
    for one in drawn:
        assert len(one) <= HEIGHT
        assert all(len(line) <= WIDTH for line in one)
        assert one[0].startswith("clerk is ")
        assert set(STAGES) <= {line.split()[0] for line in one if line.split()}
    between = re.split(r"\x1b\[\?2026h.*?\x1b\[\?2026l", screen.written, flags=re.DOTALL)
    assert [text for text in between[1:-1] if text] == [], "nothing is written between the pictures"
    assert "\033[?25h" in between[-1], "the cursor is back"
    assert screen.written.rstrip().endswith("clerk has stopped.")
    assert "Starting worker" in (home / "up.log").read_text()
    assert "Starting worker" not in screen.written


def pulse(events: int = 0, stages: int = 5) -> LiveStatus:
    now = datetime(2026, 1, 2, 12, tzinfo=UTC)
    one = Stage("ocr", 1, 57, 40, 3, 12, 0, 2, False, 48)
    return LiveStatus(now, {"ocr": 2, "completed": 3}, [one] * stages, [], 14, [Event(now, "something")] * events)


@pytest.mark.parametrize("height", [5, 23, 50])
def test_the_picture_fits_into_the_terminal(height: int) -> None:
    one = pulse(events=100)
    assert len(picture(PLACE, one, "is up", one.events, height)) <= height


def test_the_picture_says_where_everything_is() -> None:
    shown = picture(PLACE, pulse(stages=1), "is up", [], 40)
    assert shown[0].startswith("clerk is up")
    assert "  dashboard  http://127.0.0.1:8010/" in shown
    (ocr,) = [line for line in shown if line.startswith("  ocr")]
    assert ocr.split() == ["ocr", "12", "2", "40", "of", "57", "3", "48", "█" * 12 + "░" * 4]
    assert "  5 sites: 2 in ocr, 3 completed" in shown


def test_words_from_outside_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().draw(["a\033[2Jb\x9bHc"])
    assert "a?[2Jb?Hc" in capsys.readouterr().out


def test_a_pulse_of_nothing(connection: psycopg.Connection) -> None:
    found = read_live_status(connection)
    assert [stage.stage for stage in found.stages] == list(STAGES)
    assert (found.open_jobs, found.events, dict(found.sites)) == (0, [], {})
    assert any("no site yet" in line for line in picture(PLACE, found, "is up", [], 40))


def test_a_pulse_counts_what_waits_and_what_ended_and_tells_what_happened(
    database: Url, connection: psycopg.Connection
) -> None:
    items = add_site(connection, documents=3)
    with worker(database, "0123456789ab clerk 77 machine-a") as hand:
        run_with(hand, "ocr", items=tuple(items[:2]))
        found = read_live_status(connection)
        ocr = found.stages[1]
        assert (ocr.stage, ocr.completed, ocr.failed, ocr.jobs_last_minute) == ("ocr", 1, 2, 3)
        assert dict(found.sites) == {"completed": 1}
        texts = [event.text for event in found.events]
        assert texts[0] == "town: partial, 1 document read, 2 failed"
        assert texts[1].startswith("town: ocr of 2 documents failed: PdfBroken"), "for one reason: counted, not listed"
        engine.start_run(connection, "town")
        found = read_live_status(connection)
        assert (found.open_jobs, found.stages[0].waiting) == (1, 1)
        assert dict(found.sites) == {"fetch": 1}
        assert [one.worker_id for one in found.workers] == [hand.number]
