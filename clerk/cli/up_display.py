"""What `clerk up` shows of the pipeline while it runs: a picture on a terminal, lines in a pipe, or nothing."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import click

from clerk.cli.output import bar, format_table, truncate, wrap
from clerk.cli.screen import Screen
from clerk.humanize import pluralize
from clerk.monitoring.live_status import Event, LiveStatus
from clerk.pipeline.engine import STAGES

_BAR = 16
_DONE = 13
"""Wide enough from the start: columns that move are hard to read."""
_WORKERS_SHOWN = 8
_FEWEST_EVENTS = 3
_SPEAK_EVERY = 10.0
_ORDER = ("never run", *STAGES, "completed")


@dataclass(frozen=True)
class Endpoints:
    """Where everything is; it stays as long as we do."""

    dashboard: str | None
    database: str
    log: str | None


class Display(Protocol):
    def show(self, pulse: LiveStatus, state: str) -> None: ...
    def trouble(self, sentence: str) -> None:
        """The database cannot be asked right now."""

    def close(self) -> None: ...


class SupervisorLogHandler(logging.Handler):
    """Keeps what the family says about its members, so that it can be shown among the other events."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.events: deque[Event] = deque(maxlen=20)

    def emit(self, record: logging.LogRecord) -> None:
        self.events.append(Event(datetime.fromtimestamp(record.created, UTC), record.getMessage()))


class TerminalDisplay:
    """For a terminal."""

    def __init__(self, place: Endpoints, household: SupervisorLogHandler) -> None:
        self.place = place
        self.household = household
        self.screen = Screen()
        self._last: list[str] = []

    def show(self, pulse: LiveStatus, state: str) -> None:
        events = sorted([*pulse.events, *self.household.events], key=lambda event: event.at, reverse=True)
        self._last = picture(self.place, pulse, state, events, self.screen.height)
        self.screen.draw(self._last, title=True)

    def trouble(self, sentence: str) -> None:
        head = self._last or ["clerk is up"]
        self.screen.draw([head[0], *wrap(f"! {sentence}"), *head[2:]], title=True)

    def close(self) -> None:
        self.screen.close()


class LineDisplay:
    """For a pipe: what happens, and now and then where the sites are, if that has changed. The log goes its own way."""

    def __init__(self, place: Endpoints) -> None:
        self.place = place
        self._since = datetime.now(UTC)
        self._said: deque[Event] = deque(maxlen=100)
        self._state = self._where = ""
        self._spoke_at = float("-inf")

    def show(self, pulse: LiveStatus, state: str) -> None:
        if state != self._state:
            where = f", the dashboard at {self.place.dashboard}" if self.place.dashboard else ""
            self._say(pulse.now, f"clerk {state}: the database is {self.place.database}{where}")
            self._state = state
        for event in reversed(pulse.events):
            if event.at >= self._since and event not in self._said:
                self._said.append(event)
                self._say(event.at, event.text)
        where = sites(pulse)
        if where != self._where and time.monotonic() >= self._spoke_at + _SPEAK_EVERY:
            self._say(pulse.now, where)
            self._where, self._spoke_at = where, time.monotonic()

    def trouble(self, sentence: str) -> None:
        click.echo(f"clerk: {sentence}", err=True)

    def close(self) -> None:
        pass

    def _say(self, at: datetime, text: str) -> None:
        click.echo(f"{at.astimezone():%H:%M:%S} {text}")


class NullDisplay:
    """With --quiet. Errors are in the log, and on standard error."""

    def show(self, pulse: LiveStatus, state: str) -> None:
        pass

    def trouble(self, sentence: str) -> None:
        click.echo(f"clerk: {sentence}", err=True)

    def close(self) -> None:
        pass


def picture(place: Endpoints, pulse: LiveStatus, state: str, events: Sequence[Event], height: int) -> list[str]:
    head = [
        truncate(f"clerk {state}  ({pulse.now.astimezone():%H:%M:%S})"),
        "",
        *_place(place, pulse),
        "",
        *_stages(pulse),
        "",
        *wrap(f"  {sites(pulse)}"),
    ]
    foot = ["", truncate("Ctrl-C lets running jobs finish, then stops everything. A second one stops at once.")]
    room = max(height - len(head) - len(foot) - 2, 0)
    doing = _doing(pulse)[: max(room - _FEWEST_EVENTS - 2, 0)]
    middle = ["", *doing] if doing else []
    room -= len(middle)
    shown = [truncate(f"  {event.at.astimezone():%H:%M:%S}  {event.text}") for event in events[:room]]
    return [*head, *middle, "", "  last events", *(shown or ["  none yet"]), *foot][:height]


def _place(place: Endpoints, pulse: LiveStatus) -> list[str]:
    alive = sum(worker.alive for worker in pulse.workers)
    lost = len(pulse.workers) - alive
    rows = [
        ("  dashboard", place.dashboard),
        ("  database", place.database),
        ("  workers", f"{alive} alive{f', {lost} not heard of for a minute' if lost else ''}"),
        ("  log", place.log),
    ]
    return format_table([(name, what) for name, what in rows if what])


def _stages(pulse: LiveStatus) -> list[str]:
    rows = [("  stage", "waiting", "running", "done", "failed", "last minute", "")]
    for stage in pulse.stages:
        ended = stage.completed + stage.failed
        rows.append(
            (
                f"  {stage.stage}",
                _number(stage.waiting + stage.later),
                _number(stage.running),
                (f"{stage.completed:,} of {stage.total:,}" if stage.total else "·").rjust(_DONE),
                _number(stage.failed),
                _number(stage.jobs_last_minute),
                "paused" if stage.paused else bar(ended, stage.total, _BAR) if ended < stage.total else "",
            )
        )
    return format_table(rows, right={1, 2, 3, 4, 5})


def _number(number: int) -> str:
    """Nothing is a dot: what there is stands out."""
    return f"{number:,}" if number else "·"


def sites(pulse: LiveStatus) -> str:
    total = sum(pulse.sites.values())
    if not total:
        return "no site yet: add one with `clerk site add`, and it is started by itself"
    parts = [
        f"{pulse.sites[place]:,} {'in ' if place not in ('never run', 'completed') else ''}{place}"
        for place in _ORDER
        if pulse.sites.get(place)
    ]
    return f"{pluralize(total, 'site')}: {', '.join(parts)}"


def _doing(pulse: LiveStatus) -> list[str]:
    busy = [worker for worker in pulse.workers if worker.alive and worker.doing]
    return (
        format_table([(f"  worker {worker.pid}", worker.doing or "") for worker in busy[:_WORKERS_SHOWN]])
        if busy
        else []
    )
