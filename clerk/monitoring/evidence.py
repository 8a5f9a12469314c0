"""The facts behind the sentence, a line each, for whoever does not believe it."""

from __future__ import annotations

from typing import Protocol

from clerk.humanize import format_timestamp, pluralize
from clerk.monitoring import worker_text
from clerk.monitoring.site_state import COORDINATOR, Group, Job, SiteState
from clerk.pipeline.engine import STAGES

_LINES_PER_GROUP = 5
_SKIPPED_NAMED = 3


class Item(Protocol):
    @property
    def stage(self) -> str: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def meeting(self) -> str | None: ...
    @property
    def date(self) -> object: ...


def about(item: Item) -> str:
    """A document by its meeting and day; the site's own item by its stage."""
    if item.meeting is None:
        return item.stage
    return f"{item.meeting} {item.date}{' agenda' if item.kind == 'agenda' else ''}"


def skipped(facts: SiteState) -> str:
    """What of the source no document could be made of; empty if all could be used."""
    count, named = facts.run.skipped or 0, (facts.run.skipped_examples or [])[:_SKIPPED_NAMED]
    if not count:
        return ""
    were = "entry of the source was" if count == 1 else "entries of the source were"
    more = count - len(named)
    return f"{count:,} {were} passed over: {'; '.join(named)}{f'; and {more:,} more' if more else ''}"


def evidence(facts: SiteState) -> list[str]:
    return [
        *_run(facts),
        *_counters(facts),
        *filter(None, [skipped(facts)]),
        *(line for group in facts.groups for line in _group(facts, group)),
        *_jobs(facts),
        *_failed(facts),
        *_queues(facts),
        *(
            f"reconciled {format_timestamp(repair.at, facts.now)}: {repair.found}; {repair.done}"
            for repair in facts.repairs
        ),
    ]


def _run(facts: SiteState) -> list[str]:
    run = facts.run
    if run.run_id is None or run.started_at is None:
        return []
    lines = [f"run {run.run_id} ({run.reason}) began {format_timestamp(run.started_at, facts.now)}"]
    if run.going and run.updated_at:
        lines.append(f"stage {run.current_stage}, last progress {format_timestamp(run.updated_at, facts.now)}")
    if run.last_error_at and run.last_error_at >= run.started_at:
        lines.append(
            f"last error {format_timestamp(run.last_error_at, facts.now)} in {run.last_error_stage}:"
            f" {run.last_error_message}"
        )
    return lines


def _counters(facts: SiteState) -> list[str]:
    run = facts.run
    counts = []
    for stage in STAGES:
        if total := run.total(stage):
            failed = getattr(run, f"{stage}_failed")
            counts.append(f"{stage} {run.done(stage):,}/{total:,}{f' ({failed:,} failed)' if failed else ''}")
    return [", ".join(counts)] if counts else []


def _group(facts: SiteState, group: Group) -> list[str]:
    lines = [_job(facts, job) for job in group.jobs[:_LINES_PER_GROUP]]
    if group.count > len(lines):
        lines.append(f"{group.stage}: {group.count - len(lines):,} more {group.state}")
    return lines


def _jobs(facts: SiteState) -> list[str]:
    return [_job(facts, job) for job in (facts.coordinator, facts.refresh) if job is not None]


def _job(facts: SiteState, job: Job) -> str:
    what = f"{job.stage} {about(job)}" if job.meeting else job.stage
    parts = [f"{what}: {job.state}"]
    if job.state in ("running", "lost"):
        parts.append(worker_text.at_work(facts, job))
        if job.lease_until:
            parts.append(f"lease until {format_timestamp(job.lease_until, facts.now)}")
    elif job.scheduled_at:
        parts.append(f"due {format_timestamp(job.scheduled_at, facts.now)}")
    if job.attempts:
        parts.append(f"attempt {job.attempts}{f' of {job.max_attempts}' if job.max_attempts else ''}")
    if job.error_code:
        parts.append(f"last error {job.error_code}{f': {job.error_message}' if job.error_message else ''}")
    if job.job_id:
        parts.append(f"job {job.job_id}")
    return ", ".join(parts)


def _failed(facts: SiteState) -> list[str]:
    lines = [
        f"{failure.stage} {about(failure) if failure.meeting else ''}".strip()
        + f": failed, {failure.error_code}{f': {failure.error_message}' if failure.error_message else ''}"
        f" ({pluralize(failure.attempt_count, 'attempt')})"
        for failure in facts.failed[:_LINES_PER_GROUP]
    ]
    if facts.failed_count > len(lines):
        lines.append(f"{facts.failed_count - len(lines):,} more failed")
    return lines


def _queues(facts: SiteState) -> list[str]:
    jobs = [job for group in facts.groups for job in group.jobs]
    queues = {job.queue for job in (*jobs, facts.coordinator, facts.refresh) if job and job.queue}
    if not facts.run.going:
        queues.add(COORDINATOR)
    lines = []
    for queue in sorted(queues):
        readers = worker_text.readers_of(facts, queue)
        lines.append(
            f"queue {queue}: {worker_text.read_by(facts, queue)}" if readers else worker_text.nobody_reads(facts, queue)
        )
        if pause := facts.pauses.get(queue):
            lines.append(
                f"queue {queue}: paused by {pause.paused_by} since {format_timestamp(pause.paused_at, facts.now)}"
            )
    return lines
