"""What of the whole pipeline needs a person, the worst first, each with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from clerk.pg.condition import Condition
from clerk.phrases import counted, listed, relative, span, when
from clerk.why import people

_NAMED = 3
_MANY_FAILURES = 10
_RISE = 3


@dataclass(frozen=True)
class Attention:
    kind: str
    """One word for programs."""
    what: str
    remedy: str


def attention(condition: Condition) -> list[Attention]:
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


def _triggers(condition: Condition) -> list[Attention]:
    if not condition.triggers:
        return []
    return [
        Attention("triggers", f"{listed(condition.triggers)}: what jobs do is not booked", "put it back: clerk db up")
    ]


def _unread(condition: Condition) -> list[Attention]:
    return [
        Attention(
            "nothing_reads",
            f"{people.nobody_reads(condition, queue['queue'])}; {_jobs_wait(queue['waiting'])}",
            f"start one: clerk worker --queues {queue['queue']}",
        )
        for queue in condition.queues
        if queue["waiting"] and not people.readers_of(condition, queue["queue"])
    ]


def _jobs_wait(jobs: int) -> str:
    return f"{counted(jobs, 'job')} {'waits' if jobs == 1 else 'wait'}"


def _stuck(condition: Condition) -> list[Attention]:
    sites = condition.health["stuck"]
    if not sites:
        return []
    names = [f"{row['subdomain']} (still for {span(row['idle_for'])})" for row in condition.stuck[:_NAMED]]
    first = condition.stuck[0]["subdomain"]
    return [Attention("stuck", f"{_are(sites, 'site')} stuck: {_some(names, sites)}", f"see clerk why {first}")]


def _dead(condition: Condition) -> list[Attention]:
    dead = [worker for worker in condition.workers if not worker.alive]
    if not dead:
        return []
    names = [
        f"{people.named(worker)} (last heard of {relative(worker.last_heartbeat, condition.now)})"
        for worker in dead[:_NAMED]
    ]
    return [
        Attention(
            "dead_worker",
            f"{_are(len(dead), 'worker')} dead: {_some(names, len(dead))}",
            "its jobs go to others by themselves; start it again: clerk worker",
        )
    ]


def _broken(condition: Condition) -> list[Attention]:
    if condition.broken is None:
        return [Attention("unchecked", "the books could not be checked within 2 s", "clerk verify takes its time")]
    if not condition.broken:
        return []
    kinds = ", ".join(f"{invariant}: {problems:,}" for invariant, problems in condition.broken.items())
    problems = counted(sum(condition.broken.values()), "invariant")
    return [Attention("broken", f"{problems} broken ({kinds})", "see clerk verify; clerk reconcile-pipeline mends it")]


def _rising(condition: Condition) -> list[Attention]:
    now, before = condition.failures_last_hour, condition.failures_per_hour_before
    if now < _MANY_FAILURES or now <= _RISE * before:
        return []
    what = f"failures rise: {now:,} in the last hour, {before:,.0f} an hour in the day before"
    return [Attention("failures", what, "see clerk failures")]


def _failed(condition: Condition) -> list[Attention]:
    sites = condition.health["failed"]
    if not sites:
        return []
    names = [row["subdomain"] for row in condition.failed[:_NAMED]]
    what = f"the last run of {counted(sites, 'site')} failed: {_some(names, sites)}"
    return [Attention("failed", what, f"see clerk why {names[0]}")]


def _paused(condition: Condition) -> list[Attention]:
    found = [
        Attention(
            "queue_paused",
            f"queue {queue['queue']} is paused by {queue['paused_by']} since {when(queue['paused_at'], condition.now)};"
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
        found.append(Attention("site_paused", what, f"clerk resume {first}"))
    return found


def _are(number: int, one: str) -> str:
    return f"{counted(number, one)} {'is' if number == 1 else 'are'}"


def _some(names: list[str], of: int) -> str:
    more = of - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")
