"""Text of the pipeline's status: alerts, stages, queues, workers and last errors."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType

from clerk.cli.output import bar, line, marked, table, text
from clerk.humanize import format_duration, format_relative, format_time, join_words, one_line_error, pluralize
from clerk.monitoring import worker_text
from clerk.monitoring.alert import RUNBOOK, RUNBOOK_ROUTE, Alert, Severity
from clerk.monitoring.status import PipelineStatus
from clerk.package_data import data_path
from clerk.stage_names import stage_name

_MAX_WORKERS = 12
_MAX_ERRORS = 5
_BAR_WIDTH = 12
"""The table of stages then fits into 80 columns."""


def one_line(status: PipelineStatus, alerts: list[Alert]) -> str:
    health = status.health
    waiting = sum(queue["waiting"] for queue in status.queues)
    running = sum(queue["running"] - queue["lost"] for queue in status.queues)
    summary = f"{need_attention(len(alerts))}: {alerts[0].what}" if alerts else "nothing needs attention"
    return (
        f"{status.now.astimezone():%H:%M:%S} {health['active']:,} of {pluralize(health['sites'], 'site')} running,"
        f" {pluralize(waiting, 'job')} waiting, {running:,} running; {summary}"
    )


def render(status: PipelineStatus, alerts: list[Alert]) -> RenderableType:
    return Group(
        *_summary(status),
        "",
        *_alerts(status, alerts),
        *_section("stages", [_stages(status)]),
        *_section("queues", [_queues(status)]),
        *_section("workers", _workers(status)),
        *_section("last errors", _errors(status)),
    )


def _section(title: str, body: list[RenderableType]) -> list[RenderableType]:
    return ["", text(title, "bold"), *body] if body else []


def _summary(status: PipelineStatus) -> list[RenderableType]:
    health = status.health
    if not health["sites"]:
        return ["0 sites. Add one with `clerk site add`."]
    states = ", ".join(
        f"{number:,} {state}"
        for state, number in (
            ("running", health["active"]),
            ("ended", health["completed"]),
            ("never run", health["never_run"]),
        )
        if number
    )
    paused = f" ({health['paused']:,} paused)" if health["paused"] else ""
    runs = f"; {pluralize(status.runs_last_day, 'run')} ended in the last day" if health["assessed"] else ""
    outcomes = ", ".join(f"{sites:,} {outcome.replace('_', ' ')}" for outcome, sites in status.outcomes.items())
    return [
        text(f"{pluralize(health['sites'], 'site')}: {states}{paused}; {describe_health(status)}{runs}"),
        *([line(f"last runs: {outcomes}")] if outcomes else []),
    ]


def describe_health(status: PipelineStatus) -> str:
    """How many sites work, of those of which it is known."""
    health = status.health
    if not health["assessed"]:
        return "no run has ended yet"
    return f"{health['healthy']:,} of {health['assessed']:,} healthy ({health['healthy_percent']:.0f} %)"


def need_attention(number: int) -> str:
    return f"{pluralize(number, 'problem')} {'needs' if number == 1 else 'need'} attention"


def _alerts(status: PipelineStatus, alerts: list[Alert]) -> list[RenderableType]:
    if not alerts:
        return ["Nothing needs attention."]
    lines: list[RenderableType] = [text(need_attention(len(alerts)), "bold")]
    for alert in alerts:
        color = "red" if alert.severity is Severity.ERROR else "yellow"
        lines += [marked("! ", alert.describe(status.now), color), marked("    → ", alert.remedy)]
    return [*lines, marked("  ", _where_explained(alerts))]


def _where_explained(alerts: list[Alert]) -> str:
    """In a file of the checkout or of the installed package, and on the dashboard."""
    file, folder = data_path(RUNBOOK), Path.cwd()
    kinds = join_words(list(dict.fromkeys(alert.kind for alert in alerts)))
    return (
        f"explained under {kinds} in {file.relative_to(folder) if file.is_relative_to(folder) else file},"
        f" and by `clerk dashboard` at {RUNBOOK_ROUTE}"
    )


def _stages(status: PipelineStatus) -> RenderableType:
    queues = {queue["queue"]: queue for queue in status.queues}
    rows = []
    for stage in status.stages:
        done, total = stage["completed"] + stage["failed"], stage["total"]
        queue: dict[str, Any] = queues.get(stage["stage"], {})
        eta = queue.get("eta")
        rows.append(
            (
                stage_name(stage["stage"]),
                f"{stage['sites']:,}",
                bar(done, total, _BAR_WIDTH) if total else "",
                f"{done:,}/{total:,}" if total else "",
                f"{stage['failed']:,}" if stage["failed"] else "",
                f"{queue['rate_per_hour']:,}" if queue.get("rate_per_hour") else "",
                format_relative(eta, status.now) if eta and total > done else "",
                _median(stage.get("job_median")),
            )
        )
    header = ("stage", "sites", "", "done", "failed", "per hour", "ends", "per job")
    return table(rows, header, right={1, 3, 4, 5, 6, 7}, indent=2)


def _median(duration: timedelta | None) -> str:
    """Not 0 s: most jobs of some stages take less than a second."""
    return "<1 s" if duration is not None and duration < timedelta(seconds=1) else format_duration(duration)


def _queues(status: PipelineStatus) -> RenderableType:
    if not status.queues:
        return "  no jobs wait or run"
    rows = []
    for queue in status.queues:
        since = queue["oldest_waiting_since"]
        rows.append(
            (
                queue["queue"],
                f"{queue['waiting']:,}",
                f"{queue['scheduled']:,}",
                f"{queue['on_hold']:,}",
                f"{queue['running'] - queue['lost']:,}",
                format_duration(status.now - since) if since else "",
                worker_text.count_workers(status, queue["queue"]),
                "paused" if queue["paused"] else worker_text.waits_for(status, queue),
            )
        )
    header = ("queue", "waiting", "scheduled", "on hold", "running", "oldest", "workers", "")
    return table(rows, header, right=range(1, 7), indent=2)


def _workers(status: PipelineStatus) -> list[RenderableType]:
    if not status.workers:
        return ["  none"]
    rows = [
        (
            f"{worker.worker_id}{'' if worker.alive else ' DEAD'}",
            worker.host or "?",
            worker.pid or "?",
            format_relative(worker.last_heartbeat, status.now),
            ("all" if worker.queues is None else ",".join(worker.queues)) if worker.registered else "?",
            worker.current_jobs or "",
        )
        for worker in status.workers[:_MAX_WORKERS]
    ]
    more = len(status.workers) - _MAX_WORKERS
    return [
        table(rows, ("worker", "host", "pid", "heartbeat", "queues", "current jobs"), indent=2),
        *([f"  and {more:,} more"] if more > 0 else []),
    ]


def _errors(status: PipelineStatus) -> list[RenderableType]:
    rows = [
        (
            format_time(error["at"], status.now),
            error["subdomain"],
            stage_name(error["stage"]),
            pluralize(error["documents"], "document") if error["stage"] in ("ocr", "extraction") else "",
            one_line_error(error["error_code"], error["error_message"]),
        )
        for error in status.errors[:_MAX_ERRORS]
    ]
    return [table(rows, indent=2)] if rows else []
