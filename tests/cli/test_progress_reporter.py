"""Progress of long commands: a bar on a terminal, lines in a pipe, nothing with --quiet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from rich.progress import Progress

from clerk.cli.progress_reporter import ProgressReporter, describe
from tests.cli.conftest import Clerk
from tests.cli.terminal import ROOT, run_on_terminal, screen_lines
from tests.cli.test_commands import ALL
from tests.conftest import Url
from tests.engine.helpers import Worker, add_site, connect_worker
from tests.helpers import until
from tests.legacy.legacy_system import LegacyDisk, stuck_site

LONG_COMMANDS = [
    "clerk build-all",
    "clerk demo",
    "clerk migrate-stuck-sites",
    "clerk reconcile-pipeline",
    "clerk up",
    "clerk update",
    "clerk verify",
]


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("first", "done", "total", "seconds", "expected"),
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
def test_count_total_rate_and_time_left(
    first: int, done: int, total: int | None, seconds: float, expected: str
) -> None:
    clock = Clock()
    bar = Progress(get_time=clock)
    bar.add_task("sites", total=total, completed=done, first=first)
    clock.now += seconds
    assert describe(bar.tasks[0]) == expected


def test_a_pipe_gets_a_line_per_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with ProgressReporter(clock=clock) as progress:
        for number in range(1001):
            progress.update("sites", number, 1000)
            clock.now += 0.125
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0] == "40 of 1,000 sites (4 %), 8.0/s, 2 min left"
    assert [line.split()[0] for line in lines[1:-1]] == ["140", "240", "340", "440", "540", "640", "740", "840", "940"]
    assert lines[-1] == "1,000 sites in 2 min, 8.0/s"


def test_a_pipe_gets_a_line_per_minute_of_slow_work(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with ProgressReporter(clock=clock) as progress:
        for number in range(181):
            progress.update("sites", number // 60, 1000)
            clock.now += 1
    assert len(capsys.readouterr().err.splitlines()) == 3 + 1


def test_short_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressReporter(clock=Clock()) as progress:
        for number in range(1001):
            progress.update("sites", number, 1000)
    assert capsys.readouterr() == ("", "")


def test_another_count_ends_the_one_before(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with ProgressReporter(clock=clock) as progress:
        sites, repairs = progress.callback("sites"), progress.callback("repairs")
        sites(0, 2)
        clock.now += 10
        sites(2, 2)
        repairs(1, 1)
    assert capsys.readouterr().err.splitlines() == ["2 of 2 sites (100 %), 12/min", "2 sites in 10 s, 12/min"]


def test_quiet_shows_results_only(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with ProgressReporter(quiet=True, clock=clock) as progress:
        for number in range(100):
            progress.update("sites", number, 100)
            clock.now += 60
        progress.echo("town: done")
        progress.note("a message")
    assert capsys.readouterr() == ("town: done\n", "")


PROGRAM = """
import sys
from clerk.cli.progress_reporter import ProgressReporter
now = 0.0
with ProgressReporter(clock=lambda: now) as progress:
    for number in range(1, 31):
        now += 0.25
        progress.update("sites", number, 30, [(f"row {row} of {number}",) for row in range(int(sys.argv[1]))])
        if number % 10 == 0:
            progress.echo(f"result {number}")
    if len(sys.argv) > 2:
        raise SystemExit(7)
"""


def test_a_terminal_shows_results_above_the_bar_and_then_a_summary() -> None:
    with run_on_terminal("-c", PROGRAM, "2", environment={}) as terminal:
        assert terminal.wait_for_end() == 0
    assert terminal.lines == ["result 10", "result 20", "result 30", "30 sites in 7 s, 4.0/s"]
    assert "row 0 of " in terminal.written
    assert "row 1 of " in terminal.written
    assert "━" in terminal.written
    assert " of 30 sites (" in terminal.written


def test_results_can_be_piped_while_a_terminal_shows_the_progress() -> None:
    with run_on_terminal("-c", PROGRAM, "0", environment={}, piped_output=True) as terminal:
        terminal.wait_for_end()
        assert terminal.process.stdout is not None
        assert terminal.process.stdout.read() == "result 10\nresult 20\nresult 30\n"
    assert terminal.lines == ["30 sites in 7 s, 4.0/s"]


def test_rows_that_do_not_fit_on_the_screen_are_left_out() -> None:
    with run_on_terminal("-c", PROGRAM, "50", environment={}, size=(40, 10)) as terminal:
        terminal.wait_for_end()
    assert "row 7 of" in terminal.written
    assert "row 8 of" not in terminal.written
    assert "sites (" in terminal.written
    assert max(len(line) for line in screen_lines(terminal.written.partition("result 10")[0])) <= 40
    assert terminal.lines[-1] == "30 sites in 7 s, 4.0/s"


def test_the_bar_of_interrupted_work_stays_on_the_screen() -> None:
    with run_on_terminal("-c", PROGRAM, "0", "fail", environment={}) as terminal:
        assert terminal.wait_for_end() == 7
    assert "30 of 30 sites (100 %), 4.0/s" in terminal.lines[-1]


def test_a_dumb_terminal_gets_lines() -> None:
    with run_on_terminal("-c", PROGRAM, "3", environment={"TERM": "dumb"}) as terminal:
        terminal.wait_for_end()
    assert "\x1b" not in terminal.written
    assert "21 of 30 sites (70 %), 4.0/s, 2 s left" in terminal.written


def test_no_color_is_honoured() -> None:
    with run_on_terminal("-c", PROGRAM, "0", environment={"NO_COLOR": "1"}) as terminal:
        terminal.wait_for_end()
    assert "\x1b[3" not in terminal.written, "no foreground colour"


@pytest.mark.parametrize("command", LONG_COMMANDS)
def test_long_commands_have_the_option_quiet(command: str) -> None:
    assert "--quiet" in {option for parameter in ALL[command].params for option in parameter.opts}


def process_all(helper: Worker) -> None:
    while job := helper.fetch():
        helper.finish(job) if job.is_unit else helper.coordinate(job)


def test_update_waits_for_runs_on_a_terminal(connection: psycopg.Connection, database: Url) -> None:
    add_site(connection, "springfield", documents=3)
    environment = {"DATABASE_URL": database}
    with (
        run_on_terminal("-m", "clerk", "update", "springfield", "--wait", environment=environment) as terminal,
        connect_worker(database, "0123456789ab clerk 77 machine-a") as helper,
    ):
        terminal.wait_for("fetch 0/1")
        helper.finish(helper.take("fetch"))
        helper.coordinate(helper.take("coordinator"))
        helper.finish(helper.take("ocr"), "failed", "Broken", "no")
        terminal.wait_for("ocr 0/3, 1 failed")
        terminal.wait_for("2 of 9 jobs (22 %)")
        process_all(helper)
        assert terminal.wait_for_end() == 0
    assert "springfield: partial; documents: 1 failed" in terminal.lines
    left_out = "1 planned job was not needed: what fails or is cancelled has none in later stages."
    assert left_out in " ".join(terminal.lines), "8 of 9: a document whose OCR failed is not extracted"
    assert "━" not in "".join(terminal.lines), "the bars are removed"


@pytest.mark.parametrize("quiet", [False, True])
def test_update_waits_for_runs_in_a_pipe(connection: psycopg.Connection, database: Url, quiet: bool) -> None:
    add_site(connection, "springfield", documents=3)
    with (
        subprocess.Popen(
            [sys.executable, "-m", "clerk", "update", "--all", "--wait", *(["--quiet"] if quiet else [])],
            env={**os.environ, "DATABASE_URL": database, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        connect_worker(database, "0123456789ab clerk 77 machine-a") as helper,
    ):
        until(lambda: connection.execute("select 1 from sites where run_id is not null").fetchone(), 200)
        process_all(helper)
        out, err = process.communicate()
    assert (process.returncode, out) == (0, "springfield: succeeded; documents: none new\n")
    progress = [line for line in err.splitlines() if not line.startswith("clerk: springfield waits: no worker ")]
    assert all(line.endswith(("/s", "/min", "/h", "jobs")) or "left" in line for line in progress)
    assert not (quiet and err)


def test_migrating_shows_results_above_the_bar(connection: psycopg.Connection, database: Url, tmp_path: Path) -> None:
    disk = LegacyDisk(tmp_path / "storage")
    for name in ("riverton", "springfield"):
        stuck_site(connection, name)
        disk.text(name, "Council", "2024-01-01", "one page")
    environment = {"DATABASE_URL": database, "STORAGE_DIR": str(disk.root)}
    with run_on_terminal("-m", "clerk", "migrate-stuck-sites", "--dry-run", environment=environment) as terminal:
        assert terminal.wait_for_end() == 0
    assert "0 of 2 sites (0 %)" in terminal.written
    assert "━" not in "".join(terminal.lines)
    assert terminal.lines[0].startswith("riverton: 1/1 completed")
    assert terminal.lines[1].startswith("springfield: 1/1 completed")


def test_a_dry_run_of_migrating_shows_no_progress_in_a_pipe(
    clerk_command: Clerk, connection: psycopg.Connection, database: Url, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    assert clerk_command("migrate-stuck-sites", "--dry-run").err == ""
