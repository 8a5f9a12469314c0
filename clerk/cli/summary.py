"""The whole pipeline on one screen: what needs attention, stages, queues, workers."""

from __future__ import annotations

from typing import Any

from clerk.cli.output import aligned, bar, fitted, wrapped
from clerk.pg.condition import LISTED, Condition
from clerk.phrases import clock, counted, error_in_a_line, relative, span
from clerk.why import people
from clerk.why.attention import Attention

_WORKERS_SHOWN = 12
_BAR = 12
"""So that the table fits into 80 columns."""


def line(condition: Condition, found: list[Attention]) -> str:
    """All in one line, for a log."""
    health = condition.health
    waiting = sum(queue["waiting"] for queue in condition.queues)
    running = sum(queue["running"] for queue in condition.queues)
    needs = f"{len(found)} to attend to: {found[0].what}" if found else "all well"
    return (
        f"{condition.now.astimezone():%H:%M:%S} {health['active']:,} of {counted(health['sites'], 'site')} going,"
        f" {waiting:,} jobs waiting, {running:,} running; {needs}"
    )


def lines(condition: Condition, found: list[Attention]) -> list[str]:
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


def _head(condition: Condition) -> list[str]:
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
    head = f"{counted(health['sites'], 'site')}{': ' if parts else ''}{', '.join(parts)}"
    if not health["sites"]:
        return [f"{head}. Add one with `clerk site add`."]
    return [
        *wrapped(
            f"{head}; health {health['health_score']} %, {counted(condition.runs_last_day, 'run')} ended in a day"
        ),
        *([fitted(f"last runs: {outcomes}")] if outcomes else []),
    ]


def _attention(found: list[Attention]) -> list[str]:
    if not found:
        return ["Nothing needs attention."]
    lines = ["Needs attention:"]
    for one in found:
        lines += [*wrapped(f"! {one.what}"), fitted(f"    → {one.remedy}")]
    return lines


def _stages(condition: Condition) -> list[str]:
    queues = {queue["queue"]: queue for queue in condition.queues}
    rows = [("  stage", "sites", "", "done", "failed", "per hour", "empty", "a job")]
    for stage in condition.stages:
        done, total = stage["completed"] + stage["failed"], stage["total"]
        queue: dict[str, Any] = queues.get(stage["stage"], {})
        eta = queue.get("eta") if people.readers_of(condition, stage["stage"]) else None
        rows.append(
            (
                f"  {stage['stage']}",
                f"{stage['sites']:,}",
                bar(done, total, _BAR) if total else "",
                f"{done:,}/{total:,}" if total else "",
                f"{stage['failed']:,}" if stage["failed"] else "",
                f"{queue['rate_per_hour']:,}" if queue.get("rate_per_hour") else "",
                relative(eta, condition.now) if eta and total > done else "",
                span(stage.get("job_median")),
            )
        )
    return aligned(rows, right={1, 3, 4, 5, 6, 7})


def _queues(condition: Condition) -> list[str]:
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
                span(condition.now - since) if since else "",
                str(len(people.readers_of(condition, queue["queue"]))),
                "paused" if queue["paused"] else "",
            )
        )
    return aligned(rows, right={1, 2, 3, 4, 5, 6})


def _workers(condition: Condition) -> list[str]:
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
                relative(worker.last_heartbeat, condition.now),
                queues if worker.introduced else "?",
                worker.doing or "",
            )
        )
    more = len(condition.workers) - _WORKERS_SHOWN
    return [*aligned(rows), *([f"  and {more:,} more"] if more > 0 else [])]


def _errors(condition: Condition) -> list[str]:
    rows = [
        (
            f"  {clock(error['at'], condition.now)}",
            error["subdomain"],
            error["stage"],
            error_in_a_line(error["error_code"], error["error_message"]),
        )
        for error in condition.errors[: LISTED // 2]
    ]
    return aligned(rows) if rows else []
