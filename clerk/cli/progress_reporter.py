"""Progress of long commands on standard error: count, total, rate and time left.

On a terminal a progress bar, redrawn in place; elsewhere a line every 5 to 60 seconds; nothing with --quiet. Work that
takes less than a second leaves no output.

    with ProgressReporter(quiet) as progress:
        for number, site in enumerate(sites, 1):
            check(site)
            progress.update("sites", number, len(sites))
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

import click
from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.text import Text

from clerk.cli.output import line, make_console, table
from clerk.humanize import format_duration

quiet_option = click.option("--quiet", is_flag=True, help="Show no progress.")

Callback = Callable[[int, int], None]
"""Called with the number of items done and the total."""
Cells = Sequence[str | RenderableType]

_MIN_INTERVAL, _MAX_INTERVAL = 5.0, 60.0
"""Seconds between two lines where there is no terminal. Within the maximum, a line per tenth of the work."""
_MIN_DURATION = 1.0
"""Seconds; shorter work gets neither a rate nor a summary."""


def rate(task: Task) -> str:
    """Average since the start, in the unit in which it is at least 1."""
    elapsed = task.elapsed or 0.0
    per_second = (task.completed - task.fields["first"]) / elapsed if elapsed >= _MIN_DURATION else 0.0
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3600)):
        if (number := per_second * seconds) >= 1:
            return f"{number:,.0f}/{unit}" if number >= 10 else f"{number:.1f}/{unit}"
    return ""


def time_left(task: Task) -> str:
    elapsed, done = task.elapsed or 0.0, task.completed - task.fields["first"]
    if task.total is None or elapsed < _MIN_DURATION or done <= 0 or task.completed >= task.total:
        return ""
    return f"{format_duration(timedelta(seconds=(task.total - task.completed) * elapsed / done))} left"


def describe(task: Task) -> str:
    """For example: 412 of 1,000 sites (41 %), 5.5/s, 107 s left"""
    done = f"{task.completed:,.0f}"
    if task.total is None:
        return _join(f"{done} {task.description}", rate(task))
    percent = f" ({100 * task.completed // task.total:.0f} %)" if task.total else ""
    return _join(f"{done} of {task.total:,.0f} {task.description}{percent}", rate(task), time_left(task))


def summarize(task: Task) -> str:
    """For example: 1,000 sites in 182 s, 5.5/s"""
    of = f" of {task.total:,.0f}" if task.total is not None and task.completed < task.total else ""
    took = format_duration(timedelta(seconds=task.elapsed or 0.0))
    return _join(f"{task.completed:,.0f}{of} {task.description} in {took}", rate(task))


def _join(*parts: str) -> str:
    return ", ".join(filter(None, parts))


class _Description(ProgressColumn):
    max_refresh = 0.1

    def render(self, task: Task) -> Text:
        return line(describe(task))


class _Bar(Progress):
    """A progress bar with a table above it."""

    rows: Sequence[Cells] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.rows:
            # The rows that do not fit are left out: rich would cut the bar instead.
            yield table(self.rows[: max(self.console.height - 2, 1)])
        yield self.make_tasks_table(self.tasks)


class ProgressReporter:
    def __init__(self, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet, self._clock = quiet, clock
        self._console = make_console(sys.stderr)
        self._interactive = self._console.is_terminal and not self._console.is_dumb_terminal
        self._bar: _Bar | None = None
        self._reported_at, self._reported, self._has_reported = 0.0, 0, False

    def __enter__(self) -> ProgressReporter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._finish(interrupted=kind is not None)

    def callback(self, what: str) -> Callback:
        return lambda done, total: self.update(what, done, total)

    def update(self, what: str, done: int, total: int | None, rows: Sequence[Cells] = ()) -> None:
        """Update the count. A new value of `what` ends the previous count and starts another.
        `rows` are shown above the bar, on a terminal only."""
        if self._quiet:
            return
        if self._bar is None or self._bar.tasks[0].description != what:
            self._finish()
            self._start(what, done, total)
        assert self._bar is not None
        task = self._bar.tasks[0]
        # rich keeps the old total when it is given None.
        task.total = total
        self._bar.rows = rows
        self._bar.update(task.id, completed=done)
        if not self._interactive and (done or total) and self._is_due(done, total):
            click.echo(describe(task), err=True)

    def echo(self, result: str, *, err: bool = False) -> None:
        """Print a line of the command's output, above the bar."""
        if self._bar is not None and self._interactive and (err or sys.stdout.isatty()):
            self._bar.console.print(Text(result))
        else:
            click.echo(result, err=err)

    def note(self, message: str) -> None:
        """Print a message to standard error, above the bar; nothing with --quiet."""
        if not self._quiet:
            self.echo(message, err=True)

    def _start(self, what: str, done: int, total: int | None) -> None:
        self._bar = _Bar(
            BarColumn(bar_width=20),
            _Description(),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_time=self._clock,
        )
        # Items that were done before the start do not count for the rate.
        self._bar.add_task(what, total=total, completed=done, first=done)
        self._reported_at, self._reported, self._has_reported = self._clock(), done, False
        if self._interactive:
            self._bar.start()

    def _is_due(self, done: int, total: int | None) -> bool:
        now = self._clock()
        waited = now - self._reported_at
        is_tenth = total is not None and 10 * (done - self._reported) >= total
        if waited < _MIN_INTERVAL or (waited < _MAX_INTERVAL and self._has_reported and not is_tenth):
            return False
        self._reported_at, self._reported, self._has_reported = now, done, True
        return True

    def _finish(self, interrupted: bool = False) -> None:
        """Remove the bar and print a summary. The bar of interrupted work stays visible."""
        bar, self._bar = self._bar, None
        if bar is None:
            return
        if self._interactive:
            bar.live.transient = not interrupted
            bar.stop()
        task = bar.tasks[0]
        if not interrupted and (self._has_reported or (self._interactive and (task.elapsed or 0.0) >= _MIN_DURATION)):
            click.echo(summarize(task), err=True)
