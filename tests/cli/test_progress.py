"""Progress of long work: in place on a terminal, now and then in a pipe, not at all with --quiet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from clerk.cli.progress import Meter, Progress
from tests.cli.conftest import Clerk
from tests.cli.screen import ROOT, after, on_a_terminal
from tests.cli.test_commands import ALL
from tests.conftest import Url
from tests.engine.helpers import Worker, add_site, worker
from tests.helpers import until
from tests.legacy.legacy_system import LegacyDisk, stuck_site

LONG = [
    "clerk build-all",
    "clerk demo",
    "clerk migrate-stuck-sites",
    "clerk reconcile-pipeline",
    "clerk update",
    "clerk verify",
]


class Clock:
    """Time passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("first", "done", "of", "seconds", "said"),
    [
        (0, 412, 1000, 75.0, "412 of 1,000 sites (41 %), 5.5/s, 107 s left"),
        (0, 500, 12000, 2.0, "500 of 12,000 sites (4 %), 250/s, 46 s left"),
        (0, 1, 3, 30.0, "1 of 3 sites (33 %), 2.0/min, 60 s left"),
        (0, 1, 3, 1800.0, "1 of 3 sites (33 %), 2.0/h, 60 min left"),
        (900, 910, 1000, 10.0, "910 of 1,000 sites (91 %), 1.0/s, 90 s left"),
        (0, 3, 10, 0.5, "3 of 10 sites (30 %)"),
        (0, 0, 10, 60.0, "0 of 10 sites (0 %)"),
        (0, 10, 10, 10.0, "10 of 10 sites (100 %), 1.0/s"),
        (0, 0, 0, 0.0, "0 of 0 sites"),
        (0, 7, None, 2.0, "7 sites, 3.5/s"),
    ],
)
def test_count_total_rate_and_time_left(first: int, done: int, of: int | None, seconds: float, said: str) -> None:
    meter = Meter("sites", first, 0.0)
    meter.move(done, of, seconds)
    assert meter.line() == said


def test_in_a_pipe_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(clock=clock) as progress:
        for number in range(1001):
            progress.show("sites", number, 1000)
            clock.now += 0.125
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines[0] == "40 of 1,000 sites (4 %), 8.0/s, 2 min left"
    assert [line.split()[0] for line in lines[1:-1]] == ["140", "240", "340", "440", "540", "640", "740", "840", "940"]
    assert lines[-1] == "1,000 sites in 2 min, 8.0/s"


def test_in_a_pipe_slow_work_is_heard_of_every_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(clock=clock) as progress:
        for number in range(181):
            progress.show("sites", number // 60, 1000)
            clock.now += 1
    assert len(capsys.readouterr().err.splitlines()) == 3 + 1


def test_work_of_a_moment_leaves_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        for number in range(1001):
            progress.show("sites", number, 1000)
    assert capsys.readouterr() == ("", "")


def test_another_count_ends_the_one_before(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(clock=clock) as progress:
        sites, repairs = progress.counting("sites"), progress.counting("repairs")
        sites(0, 2)
        clock.now += 10
        sites(2, 2)
        repairs(1, 1)
    assert capsys.readouterr().err.splitlines() == ["2 of 2 sites (100 %), 12/min", "2 sites in 10 s, 12/min"]


def test_quiet_shows_nothing_but_results(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(quiet=True, clock=clock) as progress:
        for number in range(100):
            progress.show("sites", number, 100)
            clock.now += 60
        progress.echo("town: done")
    assert capsys.readouterr() == ("town: done\n", "")


DRIVE = """
import sys
from clerk.cli.progress import Progress
now = 0.0
with Progress(clock=lambda: now) as progress:
    for number in range(1, 31):
        now += 0.25
        progress.show("sites", number, 30, [f"row {row} of {number}" for row in range(int(sys.argv[1]))])
        if number % 10 == 0:
            progress.echo(f"result {number}")
    if len(sys.argv) > 2:
        raise SystemExit(7)
"""


def test_on_a_terminal_it_is_written_over_in_place() -> None:
    with on_a_terminal("-c", DRIVE, "2", environment={}) as screen:
        assert screen.to_the_end() == 0
    assert screen.lines == ["result 10", "result 20", "result 30", "30 sites in 7 s, 4.0/s", ""]
    assert (
        after(screen.written.partition("result 20")[0])[:5]
        == [
            "result 10",
            "row 0 of 20",
            "row 1 of 20",
            "█████████████░░░░░░░  20 of 30 sites (66 %), 5.0/s, 2 s left",
            "",
        ]
        or "row 1 of 20" in screen.written
    )


def test_results_can_be_piped_while_somebody_watches() -> None:
    with on_a_terminal("-c", DRIVE, "0", environment={}, piped_output=True) as screen:
        screen.to_the_end()
        assert screen.process.stdout is not None
        assert screen.process.stdout.read() == "result 10\nresult 20\nresult 30\n"
    assert screen.lines == ["30 sites in 7 s, 4.0/s", ""]


def test_more_rows_than_the_screen_has_are_left_out() -> None:
    with on_a_terminal("-c", DRIVE, "50", environment={}, size=(40, 10)) as screen:
        screen.to_the_end()
    assert "row 49 of 5\x1b" in screen.written
    assert "row 42 of" in screen.written
    assert "row 41 of" not in screen.written
    assert max(len(line) for line in after(screen.written.partition("result 10")[0])) < 40
    assert screen.lines[-2] == "30 sites in 7 s, 4.0/s"


def test_what_was_cut_short_stays_to_be_seen() -> None:
    with on_a_terminal("-c", DRIVE, "0", "fail", environment={}) as screen:
        assert screen.to_the_end() == 7
    assert screen.lines[-2] == "████████████████████  30 of 30 sites (100 %), 4.0/s"


def test_a_terminal_that_cannot_move_its_cursor_gets_lines() -> None:
    with on_a_terminal("-c", DRIVE, "3", environment={"TERM": "dumb"}) as screen:
        screen.to_the_end()
    assert "\x1b" not in screen.written
    assert "21 of 30 sites (70 %), 4.0/s, 2 s left" in screen.written


@pytest.mark.parametrize("command", LONG)
def test_long_commands_can_be_quiet(command: str) -> None:
    assert "--quiet" in {option for parameter in ALL[command].params for option in parameter.opts}


def work_off(hand: Worker) -> None:
    """Every job that waits, until none is left."""
    while job := hand.fetch():
        hand.finish(job) if job.is_unit else hand.coordinate(job)


def test_waiting_for_runs_on_a_terminal(connection: psycopg.Connection, database: Url) -> None:
    add_site(connection, "springfield", documents=3)
    with (
        on_a_terminal(
            "-m", "clerk", "update", "springfield", "--wait", environment={"DATABASE_URL": database}
        ) as screen,
        worker(database, "0123456789ab clerk 77 machine-a") as hand,
    ):
        until(lambda: screen.shows("fetch 0/1"), 60)
        hand.finish(hand.take("fetch"))
        hand.coordinate(hand.take("coordinator"))
        hand.finish(hand.take("ocr"), "failed", "Broken", "no")
        until(lambda: screen.shows("springfield     █████░░░░░░░░░░░░░░░  ocr 0/3, 1 failed"), 60)
        until(lambda: screen.shows("2 of 9 jobs (22 %)"), 60)
        work_off(hand)
        assert screen.to_the_end() == 0
    assert screen.lines[0] == "springfield: partial, 1 failed"
    assert "░" not in "".join(screen.lines), "what was drawn is gone"


@pytest.mark.parametrize("quiet", [False, True])
def test_waiting_for_runs_in_a_pipe(connection: psycopg.Connection, database: Url, quiet: bool) -> None:
    add_site(connection, "springfield", documents=3)
    with (
        subprocess.Popen(
            [sys.executable, "-m", "clerk", "update", "--all", "--wait", *(["--quiet"] if quiet else [])],
            env={**os.environ, "DATABASE_URL": database, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        worker(database, "0123456789ab clerk 77 machine-a") as hand,
    ):
        until(lambda: connection.execute("select 1 from sites where run_id is not null").fetchone(), 60)
        work_off(hand)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "springfield: succeeded\n")
    assert all(line.endswith(("/s", "/min", "/h", "jobs")) or "left" in line for line in err.splitlines())
    assert not (quiet and err)


def test_migrating_shows_results_above_the_count(connection: psycopg.Connection, database: Url, tmp_path: Path) -> None:
    disk = LegacyDisk(tmp_path / "storage")
    for name in ("riverton", "springfield"):
        stuck_site(connection, name)
        disk.text(name, "Council", "2024-01-01", "one page")
    environment = {"DATABASE_URL": database, "STORAGE_DIR": str(disk.root)}
    with on_a_terminal("-m", "clerk", "migrate-stuck-sites", "--dry-run", environment=environment) as screen:
        assert screen.to_the_end() == 0
    assert "0 of 2 sites (0 %)" in screen.written
    assert [line for line in screen.lines if "░" in line or "█" in line] == []
    assert screen.lines[0].startswith("riverton: 1/1 completed")
    assert screen.lines[1].startswith("springfield: 1/1 completed")


def test_a_dry_run_of_migrating_says_nothing_more_in_a_pipe(
    clerk_command: Clerk, connection: psycopg.Connection, database: Url, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    assert clerk_command("migrate-stuck-sites", "--dry-run").err == ""
