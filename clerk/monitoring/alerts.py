"""What of the whole pipeline needs a person, the worst first, each with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from clerk.humanize import format_duration, format_relative, format_timestamp, join_words, pluralize
from clerk.monitoring import worker_text
from clerk.monitoring.status import PipelineStatus

_NAMED = 3
_MANY_FAILURES = 10
_RISE = 3


@dataclass(frozen=True)
class Alert:
    kind: str
    """One word for programs."""
    what: str
    remedy: str


def find_alerts(condition: PipelineStatus) -> list[Alert]:
    return [
        *_triggers(condition),
        *_unread(condition),
        *_stuck(condition),
        *_dead(condition),
        *_broken(condition),
        *_rising(condition),
        *_failed(condition),
        *_paused(condition),
    ]


def _triggers(condition: PipelineStatus) -> list[Alert]:
    if not condition.triggers:
        return []
    return [
        Alert("triggers", f"{join_words(condition.triggers)}: what jobs do is not booked", "put it back: clerk db up")
    ]


def _unread(condition: PipelineStatus) -> list[Alert]:
    return [
        Alert(
            "nothing_reads",
            f"{worker_text.nobody_reads(condition, queue['queue'])}; {_jobs_wait(queue['waiting'])}",
            f"start one: clerk worker --queues {queue['queue']}",
        )
        for queue in condition.queues
        if queue["waiting"] and not worker_text.readers_of(condition, queue["queue"])
    ]


def _jobs_wait(jobs: int) -> str:
    return f"{pluralize(jobs, 'job')} {'waits' if jobs == 1 else 'wait'}"


def _stuck(condition: PipelineStatus) -> list[Alert]:
    sites = condition.health["stuck"]
    if not sites:
        return []
    names = [f"{row['subdomain']} (still for {format_duration(row['idle_for'])})" for row in condition.stuck[:_NAMED]]
    first = condition.stuck[0]["subdomain"]
    return [Alert("stuck", f"{_are(sites, 'site')} stuck: {_some(names, sites)}", f"see clerk why {first}")]


def _dead(condition: PipelineStatus) -> list[Alert]:
    dead = [worker for worker in condition.workers if not worker.alive]
    if not dead:
        return []
    names = [
        f"{worker_text.named(worker)} (last heard of {format_relative(worker.last_heartbeat, condition.now)})"
        for worker in dead[:_NAMED]
    ]
    return [
        Alert(
            "dead_worker",
            f"{_are(len(dead), 'worker')} dead: {_some(names, len(dead))}",
            "its jobs go to others by themselves; start it again: clerk worker",
        )
    ]


def _broken(condition: PipelineStatus) -> list[Alert]:
    if condition.broken is None:
        return [Alert("unchecked", "the books could not be checked within 2 s", "clerk verify takes its time")]
    if not condition.broken:
        return []
    kinds = ", ".join(f"{invariant}: {problems:,}" for invariant, problems in condition.broken.items())
    problems = pluralize(sum(condition.broken.values()), "invariant")
    return [Alert("broken", f"{problems} broken ({kinds})", "see clerk verify; clerk reconcile-pipeline mends it")]


def _rising(condition: PipelineStatus) -> list[Alert]:
    now, before = condition.failures_last_hour, condition.failures_per_hour_before
    if now < _MANY_FAILURES or now <= _RISE * before:
        return []
    what = f"failures rise: {now:,} in the last hour, {before:,.0f} an hour in the day before"
    return [Alert("failures", what, "see clerk failures")]


def _failed(condition: PipelineStatus) -> list[Alert]:
    sites = condition.health["failed"]
    if not sites:
        return []
    names = [row["subdomain"] for row in condition.failed[:_NAMED]]
    what = f"the last run of {pluralize(sites, 'site')} failed: {_some(names, sites)}"
    return [Alert("failed", what, f"see clerk why {names[0]}")]


def _paused(condition: PipelineStatus) -> list[Alert]:
    found = [
        Alert(
            "queue_paused",
            f"queue {queue['queue']} is paused by {queue['paused_by']}"
            f" since {format_timestamp(queue['paused_at'], condition.now)};"
            f" {_jobs_wait(queue['held_back']) if queue['held_back'] else 'nothing waits in it'}",
            f"clerk resume --queue {queue['queue']}",
        )
        for queue in condition.queues
        if queue["paused"]
    ]
    if sites := condition.health["paused"]:
        names = [f"{row['subdomain']} (by {row['paused_by']})" for row in condition.paused[:_NAMED]]
        first = condition.paused[0]["subdomain"]
        what = f"{_are(sites, 'site')} paused: {_some(names, sites)}"
        found.append(Alert("site_paused", what, f"clerk resume {first}"))
    return found


def _are(number: int, one: str) -> str:
    return f"{pluralize(number, one)} {'is' if number == 1 else 'are'}"


def _some(names: list[str], of: int) -> str:
    more = of - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")
