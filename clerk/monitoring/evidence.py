"""The facts behind an explanation, one line each: run, counters, open and failed units, queues, repairs."""

from __future__ import annotations

from typing import Protocol

from clerk.humanize import format_timestamp, one_line_error, pluralize, source_file
from clerk.monitoring import worker_text
from clerk.monitoring.site_state import Job, SiteState, UnitGroup
from clerk.pipeline.engine import COORDINATOR_QUEUE, STAGES

_MAX_LINES = 5
"""Lines per group of units."""
_MAX_SKIPPED = 3


class Item(Protocol):
    @property
    def stage(self) -> str: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def meeting(self) -> str | None: ...
    @property
    def date(self) -> object: ...


def describe_item(item: Item) -> str:
    """A document by its meeting and date; a unit of the whole site by its stage."""
    if item.meeting is None:
        return item.stage
    return f"{item.meeting} {item.date}{'' if item.kind in (None, 'minutes') else f' {item.kind}'}"


def skipped_entries(state: SiteState) -> str:
    """How many entries of the source the fetch skipped, with examples; empty if none."""
    count, examples = state.run.skipped or 0, (state.run.skipped_examples or [])[:_MAX_SKIPPED]
    if not count:
        return ""
    were = "entry of the source was" if count == 1 else "entries of the source were"
    more = count - len(examples)
    return f"{count:,} {were} skipped: {'; '.join(examples)}{f'; and {more:,} more' if more else ''}"


def list_evidence(state: SiteState) -> list[str]:
    return [
        *_run(state),
        *_counters(state),
        *filter(None, [skipped_entries(state)]),
        *(line for group in state.groups for line in _group(state, group)),
        *(_job(state, job) for job in (state.coordinator, state.refresh) if job is not None),
        *_failed(state),
        *_queues(state),
        *(
            f"reconciled {format_timestamp(repair.at, state.now)}: {repair.found}; {repair.done}"
            for repair in state.repairs
        ),
    ]


def _run(state: SiteState) -> list[str]:
    run = state.run
    if run.run_id is None or run.started_at is None:
        return []
    lines = [f"run {run.run_id} ({run.reason}) started {format_timestamp(run.started_at, state.now)}"]
    if run.active and run.updated_at:
        lines.append(f"stage {run.current_stage}, last progress {format_timestamp(run.updated_at, state.now)}")
    if run.last_error_at and run.last_error_at >= run.started_at:
        lines.append(
            f"last error {format_timestamp(run.last_error_at, state.now)} in {run.last_error_stage}:"
            f" {run.last_error_message}"
        )
    return lines


def _counters(state: SiteState) -> list[str]:
    run = state.run
    counts = []
    for stage in STAGES:
        if total := run.total(stage):
            failed = run.failed(stage)
            counts.append(f"{stage} {run.done(stage):,}/{total:,}{f' ({failed:,} failed)' if failed else ''}")
    return [", ".join(counts)] if counts else []


def _group(state: SiteState, group: UnitGroup) -> list[str]:
    lines = [_job(state, job) for job in group.jobs[:_MAX_LINES]]
    if group.count > len(lines):
        lines.append(f"{group.stage}: {group.count - len(lines):,} more {group.state}")
    return lines


def _job(state: SiteState, job: Job) -> str:
    name = f"{job.stage} {describe_item(job)}" if job.meeting else job.stage
    parts = [f"{name}: {job.state}"]
    if job.state in ("running", "lost"):
        parts.append(worker_text.running_job(state, job))
        if job.lease_until:
            parts.append(f"lease until {format_timestamp(job.lease_until, state.now)}")
    elif job.scheduled_at:
        parts.append(f"due {format_timestamp(job.scheduled_at, state.now)}")
    if job.attempts:
        parts.append(f"attempt {job.attempts}{f' of {job.max_attempts}' if job.max_attempts else ''}")
    if job.error_code:
        parts.append(f"last error {one_line_error(job.error_code, job.error_message)}")
    if job.job_id:
        parts.append(f"job {job.job_id}")
    return ", ".join(parts)


def _failed(state: SiteState) -> list[str]:
    lines = [
        f"{unit.stage} {describe_item(unit) if unit.meeting else ''}".strip()
        + (f" ({source_file(unit.source_url)})" if unit.source_url else "")
        + f": failed, {one_line_error(unit.error_code, unit.error_message)}"
        f" ({pluralize(unit.attempt_count, 'attempt')})"
        for unit in state.failed[:_MAX_LINES]
    ]
    if state.failed_count > len(lines):
        lines.append(f"{state.failed_count - len(lines):,} more failed")
    return lines


def _queues(state: SiteState) -> list[str]:
    jobs = [job for group in state.groups for job in group.jobs]
    queues = {job.queue for job in (*jobs, state.coordinator, state.refresh) if job and job.queue}
    if not state.run.active:
        queues.add(COORDINATOR_QUEUE)
    lines = []
    for queue in sorted(queues):
        if worker_text.workers_of(state, queue):
            lines.append(f"queue {queue}: {worker_text.processed_by(state, queue)}")
            lines += filter(None, [worker_text.cannot_process(state, queue)])
        else:
            lines.append(worker_text.no_worker(state, queue))
        if pause := state.pauses.get(queue):
            paused_at = format_timestamp(pause.paused_at, state.now)
            lines.append(f"queue {queue}: paused by {pause.paused_by} since {paused_at}")
    return lines
