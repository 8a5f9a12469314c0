"""The whole pipeline on one screen: what needs attention, stages, queues, workers."""

from __future__ import annotations

from typing import Any

from clerk.cli.output import bar, format_table, truncate, wrap
from clerk.humanize import format_duration, format_relative, format_time, one_line_error, pluralize
from clerk.monitoring import worker_text
from clerk.monitoring.alerts import Alert
from clerk.monitoring.status import LISTED, PipelineStatus

_WORKERS_SHOWN = 12
_BAR = 12
"""So that the table fits into 80 columns."""


def line(condition: PipelineStatus, found: list[Alert]) -> str:
    """All in one line, for a log."""
    health = condition.health
    waiting = sum(queue["waiting"] for queue in condition.queues)
    running = sum(queue["running"] for queue in condition.queues)
    needs = f"{len(found)} to attend to: {found[0].what}" if found else "all well"
    return (
        f"{condition.now.astimezone():%H:%M:%S} {health['active']:,} of {pluralize(health['sites'], 'site')} going,"
        f" {waiting:,} jobs waiting, {running:,} running; {needs}"
    )


def lines(condition: PipelineStatus, found: list[Alert]) -> list[str]:
    return [
        *_head(condition),
        "",
        *_attention(found),
        *_section("stages", _stages(condition)),
        *_section("queues", _queues(condition)),
        *_section("workers", _workers(condition)),
        *_section("last errors", _errors(condition)),
    ]


def _section(title: str, body: list[str]) -> list[str]:
    return ["", title, *body] if body else []


def _head(condition: PipelineStatus) -> list[str]:
    health = condition.health
    parts = [
        f"{number:,} {what}"
        for what, number in (
            ("going", health["active"]),
            ("completed", health["completed"]),
            ("never run", health["never_run"]),
            ("paused", health["paused"]),
        )
        if number
    ]
    outcomes = ", ".join(f"{sites:,} {outcome.replace('_', ' ')}" for outcome, sites in condition.outcomes.items())
    head = f"{pluralize(health['sites'], 'site')}{': ' if parts else ''}{', '.join(parts)}"
    if not health["sites"]:
        return [f"{head}. Add one with `clerk site add`."]
    return [
        *wrap(f"{head}; health {health['health_score']} %, {pluralize(condition.runs_last_day, 'run')} ended in a day"),
        *([truncate(f"last runs: {outcomes}")] if outcomes else []),
    ]


def _attention(found: list[Alert]) -> list[str]:
    if not found:
        return ["Nothing needs attention."]
    lines = ["Needs attention:"]
    for one in found:
        lines += [*wrap(f"! {one.what}"), truncate(f"    → {one.remedy}")]
    return lines


def _stages(condition: PipelineStatus) -> list[str]:
    queues = {queue["queue"]: queue for queue in condition.queues}
    rows = [("  stage", "sites", "", "done", "failed", "per hour", "empty", "a job")]
    for stage in condition.stages:
        done, total = stage["completed"] + stage["failed"], stage["total"]
        queue: dict[str, Any] = queues.get(stage["stage"], {})
        eta = queue.get("eta") if worker_text.readers_of(condition, stage["stage"]) else None
        rows.append(
            (
                f"  {stage['stage']}",
                f"{stage['sites']:,}",
                bar(done, total, _BAR) if total else "",
                f"{done:,}/{total:,}" if total else "",
                f"{stage['failed']:,}" if stage["failed"] else "",
                f"{queue['rate_per_hour']:,}" if queue.get("rate_per_hour") else "",
                format_relative(eta, condition.now) if eta and total > done else "",
                format_duration(stage.get("job_median")),
            )
        )
    return format_table(rows, right={1, 3, 4, 5, 6, 7})


def _queues(condition: PipelineStatus) -> list[str]:
    if not condition.queues:
        return ["  no jobs wait or run"]
    rows = [("  queue", "waiting", "later", "held back", "running", "oldest", "readers", "")]
    for queue in condition.queues:
        since = queue["oldest_waiting_since"]
        rows.append(
            (
                f"  {queue['queue']}",
                f"{queue['waiting']:,}",
                f"{queue['scheduled']:,}",
                f"{queue['held_back']:,}",
                f"{queue['running']:,}",
                format_duration(condition.now - since) if since else "",
                str(len(worker_text.readers_of(condition, queue["queue"]))),
                "paused" if queue["paused"] else "",
            )
        )
    return format_table(rows, right={1, 2, 3, 4, 5, 6})


def _workers(condition: PipelineStatus) -> list[str]:
    if not condition.workers:
        return ["  none"]
    rows = [("  worker", "host", "pid", "heard of", "reads", "does")]
    for worker in condition.workers[:_WORKERS_SHOWN]:
        queues = "all" if worker.queues is None else ",".join(worker.queues)
        rows.append(
            (
                f"  {worker.worker_id}{'' if worker.alive else ' DEAD'}",
                worker.host or "?",
                worker.pid or "?",
                format_relative(worker.last_heartbeat, condition.now),
                queues if worker.introduced else "?",
                worker.doing or "",
            )
        )
    more = len(condition.workers) - _WORKERS_SHOWN
    return [*format_table(rows), *([f"  and {more:,} more"] if more > 0 else [])]


def _errors(condition: PipelineStatus) -> list[str]:
    rows = [
        (
            f"  {format_time(error['at'], condition.now)}",
            error["subdomain"],
            error["stage"],
            one_line_error(error["error_code"], error["error_message"]),
        )
        for error in condition.errors[: LISTED // 2]
    ]
    return format_table(rows) if rows else []
