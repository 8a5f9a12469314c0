"""What an open unit, or a coordinator, waits for: one clause per stage and state, each with its cause."""

from __future__ import annotations

from dataclasses import dataclass

from clerk.humanize import format_duration, format_relative, format_time, format_timestamp, join_words, pluralize
from clerk.monitoring import worker_text
from clerk.monitoring.site_state import COORDINATOR, Group, Job, SiteState

_DOING = {"ocr": "being read", "extraction": "being searched for people and votes"}
_SITE_LEVEL = {"fetch": "the fetch", "compilation": "the compilation", "deploy": "the publication"}
_ORDER = ("running", "lost", "waiting", "later", "held back", "orphaned")


@dataclass(frozen=True)
class Reason:
    because: str
    """For programs: running, lease_over, queued, nothing_reads, retry, queue_paused, site_paused, held_back, no_job."""
    words: str
    is_cause: bool = False
    """It alone explains the wait, and something has to be done about it by a person."""
    remedy: str | None = None


def for_units(facts: SiteState, groups: list[Group]) -> tuple[str, list[Reason]]:
    """What a run waits for, and why."""
    stages = list(dict.fromkeys(group.stage for group in groups))
    waits_for = [_waited_for(facts, stage, groups) for stage in stages]
    clauses = [
        _clause(facts, group, _subject(group, alone=len(stages) == 1))
        for group in sorted(groups, key=lambda group: (_ORDER.index(group.state), group.stage))
    ]
    return join_words(waits_for), clauses


def for_coordinator(facts: SiteState, job: Job) -> Reason:
    group = Group(COORDINATOR, job.state, False, 1, [job])
    return _clause(facts, group, ("its coordinator", False))


def for_refresh(facts: SiteState, job: Job) -> Reason:
    return _clause(facts, Group("refresh", job.state, False, 1, [job]), ("it", False))


def _waited_for(facts: SiteState, stage: str, groups: list[Group]) -> str:
    if stage in _SITE_LEVEL:
        return _SITE_LEVEL[stage]
    left = sum(group.count for group in groups if group.stage == stage)
    documents = f"{left:,} of {pluralize(max(left, facts.run.total(stage)), 'document')}"
    return documents if stage == "ocr" else f"people and votes of {documents}"


def _subject(group: Group, *, alone: bool) -> tuple[str, bool]:
    """Of whom the clause speaks, and whether that is many."""
    if group.stage in _SITE_LEVEL:
        return ("it" if alone else _SITE_LEVEL[group.stage]), False
    return (f"{group.count:,}" if alone else pluralize(group.count, "document")), group.count > 1


def _clause(facts: SiteState, group: Group, subject: tuple[str, bool]) -> Reason:
    who, many = subject
    first = group.jobs[0]
    are, wait = ("are", "wait") if many else ("is", "waits")
    match group.state:
        case "running":
            return Reason("running", f"{who} {are} {_DOING.get(group.stage, 'running')} ({_at_work(facts, group)})")
        case "lost":
            return _lost(facts, group, who, many)
        case "waiting":
            return _queued(facts, group, f"{who} {wait}")
        case "later":
            return _later(facts, group, f"{who} {are}")
        case "held back":
            return _held_back(facts, first, f"{who} {are}")
        case _:
            again = "defers it again" if group.stage == COORDINATOR else "makes a new one"
            lost = "lost" if group.stage == COORDINATOR else "without a job"
            words = f"{who} {are} {lost}: reconciliation {again}"
            return Reason("no_job", healed(facts, words), remedy=reconcile_now(facts))


def _at_work(facts: SiteState, group: Group) -> str:
    if group.count <= 2:
        return "; ".join(worker_text.at_work(facts, job) for job in group.jobs)
    return f"the longest: {worker_text.at_work(facts, group.jobs[0])}"


def _queued(facts: SiteState, group: Group, who_waits: str) -> Reason:
    queue = group.jobs[0].queue or group.stage
    if not worker_text.readers_of(facts, queue):
        return Reason(
            "nothing_reads",
            worker_text.nobody_reads(facts, queue),
            is_cause=True,
            remedy=f"start one: clerk worker --queues {queue}",
        )
    ahead = next((facts.ahead[job.job_id] for job in group.jobs if job.job_id in facts.ahead), 0)
    behind = f" behind {pluralize(ahead, 'other')}" if ahead else ", next in line"
    return Reason("queued", f"{who_waits} in queue {queue}{behind} ({worker_text.read_by(facts, queue)})")


def _later(facts: SiteState, group: Group, who_is: str) -> Reason:
    first = group.jobs[0]
    assert first.scheduled_at is not None
    at = format_time(first.scheduled_at, facts.now)
    if group.stage == COORDINATOR:
        return Reason(
            "coordinator_retry",
            f"its coordinator failed {pluralize(first.attempts, 'time')} and is tried again at {at}"
            f" ({first.error_code}: {first.error_message or 'see the log of its worker'})",
        )
    if group.stage == "refresh":
        return Reason("dirty", f"it starts at {at}")
    error = f" after {first.error_code}" if first.error_code else ""
    words = f"{who_is} retried at {at}{error}" if group.count == 1 else f"{who_is} retried, the next at {at}{error}"
    run = facts.run
    if group.stage == "deploy" and run.deployed_at and not run.announced_at:
        words += "; the archive is published, what is done after it fails"
    queue = first.queue or group.stage
    if not worker_text.readers_of(facts, queue):
        words += f", but {worker_text.nobody_reads(facts, queue)}"
    return Reason("retry", words)


def _lost(facts: SiteState, group: Group, who: str, many: bool) -> Reason:
    first = group.jobs[0]
    since = f" for {format_duration(facts.now - first.lease_until)}" if first.lease_until else ""
    was = "were" if many else "was"
    words = (
        f"{who} {was} with {worker_text.holder(facts, first)}, whose lease is over{since}:"
        f" {'they are' if many else 'it is'} given to another worker within a minute"
    )
    return Reason("lease_over", _joined(words, unless_nobody(facts)), remedy=remedy_if_nobody(facts))


def _held_back(facts: SiteState, job: Job, who_is: str) -> Reason:
    run, queue = facts.run, job.queue or job.stage
    if run.paused_at is not None:
        return Reason("site_paused", paused(facts), is_cause=True, remedy=f"clerk resume {run.subdomain}")
    if (pause := facts.pauses.get(queue)) is not None:
        words = f"queue {queue} is paused by {pause.paused_by} since {format_timestamp(pause.paused_at, facts.now)}"
        return Reason("queue_paused", words, is_cause=True, remedy=f"clerk resume --queue {queue}")
    return Reason(
        "held_back",
        healed(facts, f"{who_is} held back though nothing is paused: reconciliation lets go"),
        remedy=reconcile_now(facts),
    )


def paused(facts: SiteState) -> str:
    run = facts.run
    assert run.paused_at is not None
    return f"paused by {run.paused_by} since {format_timestamp(run.paused_at, facts.now)}"


def throttled_hosts(facts: SiteState) -> list[str]:
    return [
        f"host {host.host} asked to be left alone until {format_time(host.held_until, facts.now)}"
        f"{f' ({host.held_why})' if host.held_why else ''}"
        if host.held_until is not None and host.held_until > facts.now
        else f"host {host.host} is asked by many, the next turn comes {format_relative(host.next_at, facts.now)}"
        for host in facts.hosts
    ]


def unless_nobody(facts: SiteState) -> str:
    """Rescue, reconciliation and the scheduler are jobs of one queue: without a reader they do not happen."""
    if (pause := facts.pauses.get(COORDINATOR)) is not None:
        return f"but queue {COORDINATOR} is paused by {pause.paused_by}"
    if worker_text.readers_of(facts, COORDINATOR):
        return ""
    return f"but {worker_text.nobody_reads(facts, COORDINATOR)}"


def remedy_if_nobody(facts: SiteState) -> str | None:
    if COORDINATOR in facts.pauses:
        return f"clerk resume --queue {COORDINATOR}"
    return None if worker_text.readers_of(facts, COORDINATOR) else f"start one: clerk worker --queues {COORDINATOR}"


def healed(facts: SiteState, words: str) -> str:
    """What reconciliation will do about it, if anybody runs it."""
    return _joined(f"{words} once it has stood still for 2 hours", unless_nobody(facts))


def reconcile_now(facts: SiteState) -> str:
    return f"do it now: clerk reconcile-pipeline --site {facts.run.subdomain} --threshold-hours 0"


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))
