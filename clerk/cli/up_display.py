"""Displays of `clerk up`: a live display on a terminal, lines in a pipe, or nothing with --quiet."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import click
from rich.console import Group, RenderableType
from rich.live import Live

from clerk.cli.output import bar, line, make_console, marked, table, text
from clerk.cli.status_view import describe_health
from clerk.humanize import one_line_error, pluralize
from clerk.monitoring import worker_text
from clerk.monitoring.alerts import Severity, find_alerts
from clerk.monitoring.status import PipelineStatus
from clerk.pipeline.engine import STAGES
from clerk.stage_names import stage_name

STARTING = "is starting"
_BAR_WIDTH = 16
_MAX_ALERTS = 3
_MAX_WORKERS = 8
_REPORT_INTERVAL = 10.0
_ERROR_AGE = timedelta(hours=1)


@dataclass(frozen=True)
class Endpoints:
    """Addresses of the parts of the system."""

    dashboard: str | None
    database: str
    log: str | None


@dataclass(frozen=True)
class Event:
    at: datetime
    text: str


class Display(Protocol):
    def show(self, status: PipelineStatus, state: str) -> None: ...
    def show_error(self, sentence: str) -> None:
        """The status could not be read."""

    def close(self) -> None: ...


class SupervisorLogHandler(logging.Handler):
    """Keeps the warnings of the supervisor, so that the display can show them among the other events."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.events: deque[Event] = deque(maxlen=20)

    def emit(self, record: logging.LogRecord) -> None:
        self.events.append(Event(datetime.fromtimestamp(record.created, UTC), record.getMessage()))


class TerminalDisplay:
    def __init__(self, endpoints: Endpoints, supervisor_log: SupervisorLogHandler) -> None:
        self.endpoints = endpoints
        self.supervisor_log = supervisor_log
        self._body: RenderableType = ""
        self._live = Live(console=make_console(sys.stdout), auto_refresh=False, vertical_overflow="crop")
        self._live.start()

    def show(self, status: PipelineStatus, state: str) -> None:
        events = [*list_events(status), *self.supervisor_log.events]
        self._body = render(self.endpoints, status, state, events)
        self._live.update(self._body, refresh=True)

    def show_error(self, sentence: str) -> None:
        self._live.update(Group(text(f"! {sentence}", "red"), self._body), refresh=True)

    def close(self) -> None:
        self._live.stop()


class LineDisplay:
    """Prints each event, and the number of sites per stage when it has changed. Log lines go to standard error."""

    def __init__(self, endpoints: Endpoints) -> None:
        self.endpoints = endpoints
        self._since = datetime.now(UTC)
        self._printed: deque[Event] = deque(maxlen=100)
        self._state = self._sites = self._skipped = ""
        self._reported_at = float("-inf")

    def show(self, status: PipelineStatus, state: str) -> None:
        if state != self._state:
            dashboard = f", the dashboard at {self.endpoints.dashboard}" if self.endpoints.dashboard else ""
            self._print(status.now, f"clerk {state}: the database is {self.endpoints.database}{dashboard}")
            self._state = state
        for event in sorted(list_events(status), key=lambda event: event.at):
            if event.at >= self._since and event not in self._printed:
                self._printed.append(event)
                self._print(event.at, event.text)
        skipped = describe_skipped(status)
        if skipped != self._skipped:
            self._print(status.now, skipped or "no entry of a source is skipped any more")
            self._skipped = skipped
        sites = count_sites(status)
        if sites != self._sites and time.monotonic() >= self._reported_at + _REPORT_INTERVAL:
            self._print(status.now, sites)
            self._sites, self._reported_at = sites, time.monotonic()

    def show_error(self, sentence: str) -> None:
        click.echo(f"clerk: {sentence}", err=True)

    def close(self) -> None:
        pass

    def _print(self, at: datetime, message: str) -> None:
        click.echo(f"{at.astimezone():%H:%M:%S} {message}")


class NullDisplay:
    """Shows errors only."""

    def show(self, status: PipelineStatus, state: str) -> None:
        pass

    def show_error(self, sentence: str) -> None:
        click.echo(f"clerk: {sentence}", err=True)

    def close(self) -> None:
        pass


def list_events(status: PipelineStatus) -> list[Event]:
    """Runs, repairs, operator actions, and the errors of the last hour."""
    return [
        *(Event(row["at"], _describe_event(row)) for row in status.events),
        *(Event(row["at"], _describe_error(row)) for row in status.errors if row["at"] > status.now - _ERROR_AGE),
    ]


def _describe_event(row: dict[str, Any]) -> str:
    event = ": ".join(filter(None, (row["subdomain"] or "pipeline", row["kind"], row["what"])))
    if not row["processed"] and not row["failed"]:
        return event
    failed = f", {row['failed']:,} failed" if row["failed"] else ""
    return f"{event} ({pluralize(row['processed'], 'document')} processed{failed})"


def _describe_error(row: dict[str, Any]) -> str:
    """One failed document is named; several with the same error are counted."""
    name = " ".join(str(row[column]) for column in ("meeting", "date") if row[column])
    of = pluralize(row["documents"], "document") if row["documents"] > 1 else name
    retried = ", will be retried" if row["status"] == "failed_retryable" else ""
    error = one_line_error(row["error_code"], row["error_message"])
    return f"{row['subdomain']}: {stage_name(row['stage'])}{f' of {of}' if of else ''} failed{retried}: {error}"


def render(endpoints: Endpoints, status: PipelineStatus, state: str, events: Sequence[Event]) -> RenderableType:
    """What does not fit on the screen is cut at the end: the oldest events."""
    newest = sorted(events, key=lambda event: event.at, reverse=True)
    jobs = _current_jobs(status)
    return Group(
        text(f"clerk {state}  ({status.now.astimezone():%H:%M:%S})", "bold"),
        "Ctrl-C stops clerk when the running jobs have finished; a second Ctrl-C stops it immediately.",
        "",
        _endpoints(endpoints, status),
        "",
        _stages(status),
        "",
        text(f"  {count_sites(status)}"),
        *_attention(status, state),
        *(["", jobs] if jobs else []),
        "",
        "  last events",
        *(line(f"  {event.at.astimezone():%H:%M:%S}  {event.text}") for event in newest),
        *([] if newest else ["  none yet"]),
    )


def _endpoints(endpoints: Endpoints, status: PipelineStatus) -> RenderableType:
    alive = sum(worker.alive for worker in status.workers)
    dead = len(status.workers) - alive
    rows = [
        ("dashboard", endpoints.dashboard),
        ("database", endpoints.database),
        ("workers", f"{alive} alive{f', {dead} without a heartbeat for a minute' if dead else ''}"),
        ("log", endpoints.log),
    ]
    return table([(name, value) for name, value in rows if value], indent=2)


def _stages(status: PipelineStatus) -> RenderableType:
    queues = {queue["queue"]: queue for queue in status.queues}
    rows = []
    for stage in status.stages:
        queue = queues.get(stage["stage"], {})
        total, ended = stage["run_total"], stage["run_completed"] + stage["run_failed"]
        rows.append(
            (
                stage_name(stage["stage"]),
                _number(queue.get("waiting", 0) + queue.get("scheduled", 0)),
                _number(queue.get("running", 0) - queue.get("lost", 0)),
                f"{stage['run_completed']:,} of {total:,}" if total else "·",
                _number(stage["run_failed"]),
                _number(stage["jobs_last_minute"]),
                "paused" if queue.get("paused") else bar(ended, total, _BAR_WIDTH) if ended < total else "",
            )
        )
    header = ("stage", "waiting", "running", "done", "failed", "last minute", "")
    return table(rows, header, right=range(1, 6), indent=2)


def _number(number: int) -> str:
    return f"{number:,}" if number else "·"


def count_sites(status: PipelineStatus) -> str:
    if not status.sites:
        return "no sites: add one with `clerk site add`, and clerk starts it automatically"
    parts = [
        f"{status.sites[stage]:,} {f'in {stage_name(stage)}' if stage in STAGES else stage_name(stage).lower()}"
        for stage in ("never run", *STAGES, "completed")
        if stage in status.sites
    ]
    return f"{pluralize(sum(status.sites.values()), 'site')}: {', '.join(parts)}; {describe_health(status)}"


def describe_skipped(status: PipelineStatus) -> str:
    """How many entries of sources did not become documents, with what to do; empty if none."""
    alert = next((alert for alert in find_alerts(status) if alert.kind == "skipped"), None)
    return f"{alert.what} → {alert.remedy}" if alert else ""


def _attention(status: PipelineStatus, state: str) -> list[RenderableType]:
    """The first problems with what to do; `clerk status` has all. While clerk starts its workers, none is missing."""
    alerts = [alert for alert in find_alerts(status) if alert.kind != "no_worker" or state != STARTING]
    if not alerts:
        return [text("  nothing needs attention")]
    lines: list[RenderableType] = []
    for alert in alerts[:_MAX_ALERTS]:
        color = "red" if alert.severity is Severity.ERROR else "yellow"
        lines += [marked("  ! ", alert.describe(status.now), color), marked("    → ", alert.remedy)]
    more = len(alerts) - _MAX_ALERTS
    return [*lines, *([text(f"    and {more} more: clerk status")] if more > 0 else [])]


def _current_jobs(status: PipelineStatus) -> RenderableType | None:
    busy = [worker for worker in status.workers if worker.alive and worker.current_jobs]
    rows = [(worker_text.worker_name(worker), worker.current_jobs or "") for worker in busy[:_MAX_WORKERS]]
    return table(rows, indent=2) if rows else None
