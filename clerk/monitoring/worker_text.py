"""Who reads a queue, who holds a job, and who does not: workers in words."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Protocol

from clerk.humanize import format_duration, format_relative, join_words, pluralize
from clerk.monitoring.site_state import Job, SiteState
from clerk.monitoring.workers import Worker

_HOLDER = re.compile(r"[0-9a-f]{12} clerk (\d+) (.+)")


class HasWorkers(Protocol):
    """The workers at a moment."""

    @property
    def now(self) -> datetime: ...
    @property
    def workers(self) -> list[Worker]: ...


def readers_of(facts: HasWorkers, queue: str) -> list[Worker]:
    return [worker for worker in facts.workers if worker.reads(queue)]


def named(worker: Worker) -> str:
    return f"worker {worker.worker_id}{f' on {worker.host}' if worker.host else ''}"


def holder(facts: SiteState, job: Job) -> str:
    """The worker that has the job, or had it."""
    for worker in facts.workers:
        if worker.holder is not None and worker.holder == job.holder:
            return named(worker)
    if job.holder is None:
        return f"worker {job.worker_id}" if job.worker_id is not None else "a worker that is gone"
    match = _HOLDER.fullmatch(job.holder)
    return f"process {match[1]} on {match[2]}" if match else job.holder


def nobody_reads(facts: HasWorkers, queue: str) -> str:
    """Why nothing happens in a queue: no worker at all, none for this queue, or none that says."""
    alive = [worker for worker in facts.workers if worker.alive]
    silent = [worker for worker in alive if not worker.introduced]
    if not alive:
        last = max(facts.workers, key=lambda worker: worker.last_heartbeat, default=None)
        heard = f" ({named(last)} was last heard of {format_relative(last.last_heartbeat, facts.now)})" if last else ""
        return f"nothing reads queue {queue}: no worker alive{heard}"
    if silent:
        return (
            f"nothing is known to read queue {queue}: {pluralize(len(silent), 'worker')} of another version"
            f" {'does' if len(silent) == 1 else 'do'} not say what it reads"
        )
    queues = sorted({name for worker in alive for name in worker.queues or ()})
    verb = "worker alive reads" if len(alive) == 1 else f"{len(alive)} workers alive read"
    return f"nothing reads queue {queue}: the {verb} {join_words(queues)} only"


def read_by(facts: HasWorkers, queue: str) -> str:
    readers = readers_of(facts, queue)
    if len(readers) == 1:
        return f"read by {named(readers[0])}"
    return f"read by {pluralize(len(readers), 'worker')}"


def at_work(facts: SiteState, job: Job) -> str:
    """Worker, how far, how long."""
    far = ""
    if job.progress and job.progress_total:
        unit = {"ocr": "page {} of {}", "fetch": "document {} of {}"}.get(job.stage, "step {} of {}")
        far = unit.format(f"{job.progress:,}", f"{job.progress_total:,}")
    long = format_duration(facts.now - job.claimed_at) if job.claimed_at else ""
    return ", ".join(filter(None, (holder(facts, job), far, long)))
