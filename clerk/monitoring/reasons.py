"""Reasons why a run waits: one per stage and state of its open units, and one for its coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from clerk.errors import Cause, job_error_class
from clerk.humanize import format_relative, format_time, format_timestamp, join_words, pluralize
from clerk.monitoring import worker_text
from clerk.monitoring.site_state import Job, SiteState, UnitGroup
from clerk.pipeline.engine import COORDINATOR_QUEUE

_SITE_LEVEL = {"fetch": "the fetch", "compilation": "the compilation", "deploy": "the publication"}
_DOCUMENT_LEVEL = {"ocr": "the OCR", "extraction": "the extraction"}
_STATES = ("running", "lost", "waiting", "later", "paused", "orphaned")


@dataclass(frozen=True)
class Reason:
    because: str
    """Code for programs: running, lease_expired, queued, no_worker, retry, queue_paused, site_paused, …"""
    text: str
    """The same for people."""
    is_cause: bool = False
    """The reason alone explains the wait, and an operator has to act."""
    remedy: str | None = None


@dataclass(frozen=True)
class _Subject:
    text: str
    plural: bool = False

    @property
    def be(self) -> str:
        return f"{self.text} {'are' if self.plural else 'is'}"

    @property
    def wait(self) -> str:
        return f"{self.text} {'wait' if self.plural else 'waits'}"

    @property
    def have(self) -> str:
        return f"{self.text} {'have' if self.plural else 'has'}"


def for_units(state: SiteState, groups: list[UnitGroup]) -> tuple[str, list[Reason]]:
    """The work that the open units stand for, and a reason per group."""
    stages = list(dict.fromkeys(group.stage for group in groups))
    work = join_words([_open_work(state, stage, groups) for stage in stages])
    ordered = sorted(groups, key=lambda group: (_STATES.index(group.state), group.stage))
    return work, [_reason(state, group, _subject(group, only_stage=len(stages) == 1)) for group in ordered]


def for_coordinator(state: SiteState, job: Job) -> Reason:
    return _reason(state, UnitGroup(COORDINATOR_QUEUE, job.state, False, 1, [job]), _Subject("its coordinator"))


def for_refresh(state: SiteState, job: Job) -> Reason:
    return _reason(state, UnitGroup("refresh", job.state, False, 1, [job]), _Subject("the run"))


def _open_work(state: SiteState, stage: str, groups: list[UnitGroup]) -> str:
    if stage in _SITE_LEVEL:
        return _SITE_LEVEL[stage]
    count = sum(group.count for group in groups if group.stage == stage)
    return f"{_DOCUMENT_LEVEL[stage]} of {count:,} of {pluralize(max(count, state.run.total(stage)), 'document')}"


def _subject(group: UnitGroup, *, only_stage: bool) -> _Subject:
    if group.stage in _SITE_LEVEL:
        return _Subject("it" if only_stage else _SITE_LEVEL[group.stage])
    return _Subject(f"{group.count:,}" if only_stage else pluralize(group.count, "document"), group.count > 1)


def _reason(state: SiteState, group: UnitGroup, subject: _Subject) -> Reason:
    match group.state:
        case "running":
            return Reason("running", f"{subject.be} running ({_running(state, group)})")
        case "lost":
            return _lease_expired(state, group, subject)
        case "waiting":
            return _queued(state, group, subject)
        case "later":
            return _scheduled(state, group, subject)
        case "paused":
            return _on_hold(state, group, subject)
        case _:
            text = f"{subject.have} no job: reconciliation defers a new one"
            return Reason("no_job", will_be_repaired(state, text), remedy=repair_now(state))


def _running(state: SiteState, group: UnitGroup) -> str:
    if group.count <= 2:
        return "; ".join(worker_text.running_job(state, job) for job in group.jobs)
    return f"the longest: {worker_text.running_job(state, group.jobs[0])}"


def _queued(state: SiteState, group: UnitGroup, subject: _Subject) -> Reason:
    queue = group.jobs[0].queue or group.stage
    if not worker_text.workers_of(state, queue):
        remedy = worker_text.start_worker(state, queue)
        return Reason("no_worker", worker_text.no_worker(state, queue), is_cause=True, remedy=remedy)
    if (problem := worker_text.host_problem(state, queue)) is not None:
        remedy = job_error_class(problem.error_code).remedy
        return Reason("host_problem", worker_text.cannot_process(state, queue), is_cause=True, remedy=remedy)
    position = _position(state, group, subject)
    return Reason("queued", f"{subject.wait} in queue {queue}{position} ({worker_text.processed_by(state, queue)})")


def _position(state: SiteState, group: UnitGroup, subject: _Subject) -> str:
    """How many jobs are before the first of the group, and why."""
    first = next((job for job in group.jobs if job.job_id in state.jobs_ahead), None)
    ahead = state.jobs_ahead[first.job_id] if first is not None and first.job_id is not None else 0
    if first is None or not ahead:
        return ", next in line"
    sites = state.sites_with_turns.get(first.queue or "", 0)
    if not first.turn or sites < 2:
        return f" behind {pluralize(ahead, 'other')}"
    weight = f", this one with weight {state.run.weight}" if state.run.weight > 1 else ""
    jobs = "about 1 job goes" if ahead == 1 else f"about {ahead:,} jobs go"
    its = "their" if subject.plural else "its"
    return f" for {its} turn: {sites:,} sites take turns{weight}, and {jobs} first"


def _scheduled(state: SiteState, group: UnitGroup, subject: _Subject) -> Reason:
    first, run = group.jobs[0], state.run
    assert first.scheduled_at is not None
    at = format_time(first.scheduled_at, state.now)
    if group.stage == COORDINATOR_QUEUE:
        error = f"{first.error_code}: {first.error_message or 'see the log of its worker'}"
        times = pluralize(first.attempts, "time")
        return Reason("coordinator_retry", f"its coordinator failed {times} and is retried at {at} ({error})")
    if group.stage == "refresh":
        return Reason("dirty", f"the run starts at {at}")
    when = f"at {at}" if group.count == 1 else f"from {at} on"
    text = f"{subject.be} retried {when}{f' after {first.error_code}' if first.error_code else ''}"
    cause = job_error_class(first.error_code).cause if first.error_code else Cause.DOCUMENT
    if not cause.is_counted:
        text += f", which is an error of the {cause} and does not count as an attempt"
    if group.stage == "deploy" and run.deployed_at and not run.announced_at:
        text += "; the archive is published, but a step after publication fails"
    queue = first.queue or group.stage
    if not worker_text.workers_of(state, queue):
        text += f", but {worker_text.no_worker(state, queue)}"
    elif (problem := worker_text.host_problem(state, queue)) is not None:
        text += f", but {worker_text.cannot_process(state, queue)}"
        return Reason("host_problem", text, remedy=job_error_class(problem.error_code).remedy)
    return Reason("retry", text)


def _lease_expired(state: SiteState, group: UnitGroup, subject: _Subject) -> Reason:
    first = group.jobs[0]
    were, them = ("were", "them") if subject.plural else ("was", "it")
    expired = f" {format_relative(first.lease_until, state.now)}" if first.lease_until else ""
    text = (
        f"{subject.text} {were} claimed by {worker_text.holder_name(state, first)}, whose lease expired{expired}:"
        f" another worker gets {them} within a minute"
    )
    return Reason("lease_expired", _join(text, coordinator_blocked(state)), remedy=unblock_coordinator(state))


def _on_hold(state: SiteState, group: UnitGroup, subject: _Subject) -> Reason:
    run, queue = state.run, group.jobs[0].queue or group.stage
    if run.paused_at is not None:
        return Reason("site_paused", site_paused(state), is_cause=True, remedy=f"clerk resume {run.subdomain}")
    if (pause := state.pauses.get(queue)) is not None:
        text = f"queue {queue} is paused by {pause.paused_by} since {format_timestamp(pause.paused_at, state.now)}"
        return Reason("queue_paused", text, is_cause=True, remedy=f"clerk resume --queue {queue}")
    them = "them" if subject.plural else "it"
    text = f"{subject.be} on hold although neither site nor queue is paused: reconciliation releases {them}"
    text = _join(f"{text} within 15 minutes", coordinator_blocked(state))
    return Reason("wrongly_paused", text, remedy=repair_now(state))


def site_paused(state: SiteState) -> str:
    run = state.run
    assert run.paused_at is not None
    return f"the site is paused by {run.paused_by} since {format_timestamp(run.paused_at, state.now)}"


def throttled_hosts(state: SiteState) -> list[str]:
    return [
        f"host {host.host} accepts no requests until {format_time(host.held_until, state.now)}"
        f"{f' ({host.held_why})' if host.held_why else ''}"
        if host.held_until is not None and host.held_until > state.now
        else f"host {host.host} is rate-limited, the next request is sent {format_relative(host.next_at, state.now)}"
        for host in state.hosts
    ]


def coordinator_blocked(state: SiteState) -> str:
    """Why queue coordinator, with rescue, reconciliation and scheduler, is not processed; empty if it is."""
    if (pause := state.pauses.get(COORDINATOR_QUEUE)) is not None:
        return f"but queue {COORDINATOR_QUEUE} is paused by {pause.paused_by}"
    if worker_text.workers_of(state, COORDINATOR_QUEUE):
        return ""
    return f"but {worker_text.no_worker(state, COORDINATOR_QUEUE)}"


def scheduler_failed(state: SiteState) -> str:
    """That no due run is started; empty if the last attempt to start them succeeded."""
    if state.scheduler_error is None:
        return ""
    return f"but the periodic task that starts runs failed the last time ({state.scheduler_error}): see clerk status"


def unblock_coordinator(state: SiteState) -> str | None:
    if COORDINATOR_QUEUE in state.pauses:
        return f"clerk resume --queue {COORDINATOR_QUEUE}"
    if worker_text.workers_of(state, COORDINATOR_QUEUE):
        return None
    return worker_text.start_worker(state, COORDINATOR_QUEUE)


def will_be_repaired(state: SiteState, text: str) -> str:
    """Add when reconciliation repairs it, and what prevents that."""
    return _join(f"{text} when the site has made no progress for 2 hours", coordinator_blocked(state))


def repair_now(state: SiteState) -> str:
    return f"repair it now: clerk reconcile-pipeline --site {state.run.subdomain} --threshold-hours 0"


def _join(*parts: str) -> str:
    return ", ".join(filter(None, parts))
