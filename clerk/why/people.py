"""Who reads a queue, who holds a job, and who does not: workers in words."""

from __future__ import annotations

import re

from clerk.phrases import counted, listed, relative, span
from clerk.why.facts import Facts, Job, Reader

_HOLDER = re.compile(r"[0-9a-f]{12} clerk (\d+) (.+)")


def readers_of(facts: Facts, queue: str) -> list[Reader]:
    return [reader for reader in facts.readers if reader.reads(queue)]


def named(reader: Reader) -> str:
    return f"worker {reader.worker_id} on {reader.host}" if reader.introduced else f"worker {reader.worker_id}"


def holder(facts: Facts, job: Job) -> str:
    """The worker that has the job, or had it."""
    for reader in facts.readers:
        if reader.holder is not None and reader.holder == job.holder:
            return named(reader)
    if job.holder is None:
        return f"worker {job.worker_id}" if job.worker_id is not None else "a worker that is gone"
    match = _HOLDER.fullmatch(job.holder)
    return f"process {match[1]} on {match[2]}" if match else job.holder


def nobody_reads(facts: Facts, queue: str) -> str:
    """Why nothing happens in a queue: no worker at all, none for this queue, or none that says."""
    alive = [reader for reader in facts.readers if reader.alive]
    silent = [reader for reader in alive if not reader.introduced]
    if not alive:
        last = max(facts.readers, key=lambda reader: reader.last_heartbeat, default=None)
        heard = f" ({named(last)} was last heard of {relative(last.last_heartbeat, facts.now)})" if last else ""
        return f"nothing reads queue {queue}: no worker alive{heard}"
    if silent:
        return (
            f"nothing is known to read queue {queue}: {counted(len(silent), 'worker')} of another version"
            f" {'does' if len(silent) == 1 else 'do'} not say what it reads"
        )
    queues = sorted({name for reader in alive for name in reader.queues or ()})
    verb = "worker alive reads" if len(alive) == 1 else f"{len(alive)} workers alive read"
    return f"nothing reads queue {queue}: the {verb} {listed(queues)} only"


def read_by(facts: Facts, queue: str) -> str:
    readers = readers_of(facts, queue)
    if len(readers) == 1:
        return f"read by {named(readers[0])}"
    return f"read by {counted(len(readers), 'worker')}"


def at_work(facts: Facts, job: Job) -> str:
    """Worker, how far, how long."""
    far = ""
    if job.progress and job.progress_total:
        unit = {"ocr": "page {} of {}", "fetch": "document {} of {}"}.get(job.stage, "step {} of {}")
        far = unit.format(f"{job.progress:,}", f"{job.progress_total:,}")
    long = span(facts.now - job.claimed_at) if job.claimed_at else ""
    return ", ".join(filter(None, (holder(facts, job), far, long)))
