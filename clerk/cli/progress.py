"""How far long work is: done, of how many, how quick, and how long it will take.

On a terminal a few lines, written over in place; in a pipe a plain line now and then; with --quiet nothing. All of it
goes to standard error, so that what a command prints can be piped. Work that is done within a moment leaves no trace.

    with Progress(quiet) as progress:
        for number, site in enumerate(sites, 1):
            look_at(site)
            progress.show("sites", number, len(sites))
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import click

from clerk.cli.output import bar
from clerk.humanize import format_duration

quiet_option = click.option("--quiet", is_flag=True, help="Show no progress.")

Count = Callable[[int, int], None]
"""Called with how many are done, of how many."""

_REDRAW = 0.1
"""Seconds between two pictures on a terminal: quicker than that is flicker, and costs time."""
_SPEAK, _SPEAK_ANYWAY = 5.0, 60.0
"""In a pipe: so many seconds between two lines at least, and at most unless a tenth of the work was done."""
_MOMENT = 1.0
"""Seconds; nobody needs to be told how long a shorter work took."""
_BAR = 20


class Meter:
    """One count on its way to its total. The rate is that of the whole way: calm, and right where work is even."""

    def __init__(self, what: str, done: int, now: float) -> None:
        self.what = what
        self.first = self.done = done
        """What was done before anybody looked says nothing about the rate: where each takes long, begin with 0."""
        self.of: int | None = None
        self.began = self.now = now

    def move(self, done: int, of: int | None, now: float) -> None:
        self.done, self.of, self.now = done, of, now

    @property
    def per_second(self) -> float:
        """0 if it cannot be told yet."""
        seconds = self.now - self.began
        return (self.done - self.first) / seconds if seconds >= _MOMENT else 0.0

    @property
    def left(self) -> timedelta | None:
        if self.of is None or self.per_second <= 0:
            return None
        return timedelta(seconds=max(0, self.of - self.done) / self.per_second)

    def line(self) -> str:
        """412 of 1,000 sites (41 %), 5.5/s, 107 s left"""
        if self.of is None:
            return _joined(f"{self.done:,} {self.what}", _rate(self.per_second))
        share = f" ({100 * self.done // self.of} %)" if self.of else ""
        left = f"{format_duration(self.left)} left" if self.left and self.done < self.of else ""
        return _joined(f"{self.done:,} of {self.of:,} {self.what}{share}", _rate(self.per_second), left)

    def picture(self) -> str:
        return f"{bar(self.done, self.of, _BAR)}  {self.line()}" if self.of is not None else self.line()

    def ending(self) -> str:
        """1,000 sites in 182 s, 5.5/s"""
        of = f" of {self.of:,}" if self.of is not None and self.done < self.of else ""
        took = format_duration(timedelta(seconds=self.now - self.began))
        return _joined(f"{self.done:,}{of} {self.what} in {took}", _rate(self.per_second))


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _rate(per_second: float) -> str:
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3600)):
        if (rate := per_second * seconds) >= 1:
            return f"{rate:,.0f}/{unit}" if rate >= 10 else f"{rate:.1f}/{unit}"
    return ""


class Progress:
    """What is shown of one piece of work after another, for the length of a `with` block."""

    def __init__(self, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet, self._clock = quiet, clock
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._meter: Meter | None = None
        self._picture: Sequence[str] = ()
        """The lines on the terminal that the next ones are written over."""
        self._shown_at, self._shown = 0.0, 0
        self._spoke = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._end()
        # What was cut short stays on the screen as it was: it says how far it came.

    def counting(self, what: str) -> Count:
        """For work that reports its count itself."""
        return lambda done, of: self.show(what, done, of)

    def show(self, what: str, done: int, of: int | None, rows: Sequence[str] = ()) -> None:
        """Another `what` ends the one before. `rows` are seen above the count, on a terminal only."""
        if self._quiet:
            return
        now = self._clock()
        if self._meter is None or self._meter.what != what:
            self._end()
            self._meter, self._spoke = Meter(what, done, now), False
            self._shown_at, self._shown = -math.inf if self._terminal else now, done
        self._meter.move(done, of, now)
        if self._terminal:
            if now - self._shown_at >= _REDRAW:
                self._draw([*rows, self._meter.picture()])
                self._shown_at = now
        elif self._is_time_to_speak(now, done, of):
            click.echo(self._meter.line(), err=True)

    def echo(self, line: str, *, err: bool = False) -> None:
        """A line that stays: above what is drawn."""
        picture = self._picture
        self._erase()
        click.echo(line, err=err)
        if picture:
            self._draw(picture)

    def note(self, line: str) -> None:
        """A word on the way, for whoever watches; not a result."""
        if not self._quiet:
            self.echo(line, err=True)

    def _is_time_to_speak(self, now: float, done: int, of: int | None) -> bool:
        waited = now - self._shown_at
        is_a_tenth = of is not None and 10 * (done - self._shown) >= of
        if waited < _SPEAK or (waited < _SPEAK_ANYWAY and self._spoke and not is_a_tenth):
            return False
        self._shown_at, self._shown, self._spoke = now, done, True
        return True

    def _end(self) -> None:
        meter, self._meter = self._meter, None
        self._erase()
        if meter is not None and (self._spoke or (self._terminal and meter.now - meter.began >= _MOMENT)):
            click.echo(meter.ending(), err=True)

    def _draw(self, lines: Sequence[str]) -> None:
        width, height = _size()
        kept = [line if len(line) < width else line[: width - 2] + "…" for line in lines[-(height - 1) :]]
        up = f"\033[{len(self._picture)}A" if self._picture else ""
        # Each line is cleared to its end after it was written, not before: nothing flickers.
        click.echo(up + "\r" + "".join(f"{line}\033[K\n" for line in kept) + "\033[J", nl=False, err=True)
        self._picture = kept

    def _erase(self) -> None:
        if self._picture:
            click.echo(f"\033[{len(self._picture)}A\r\033[J", nl=False, err=True)
            self._picture = ()


def _size() -> tuple[int, int]:
    """Of the terminal that standard error is: shutil asks about standard output, which may be a pipe."""
    try:
        size = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((0, 0))
    return size.columns or 80, size.lines or 24
