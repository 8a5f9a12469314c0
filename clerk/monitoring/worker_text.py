"""Sentences about workers: which workers process a queue, and which one holds a job."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Protocol

from clerk.humanize import format_duration, format_relative, join_words, pluralize
from clerk.monitoring.query import Row
from clerk.monitoring.site_state import Job, SiteState
from clerk.monitoring.workers import Problem, Worker

_HOLDER = re.compile(r"[0-9a-f]{12} clerk (\d+) (.+)")


class HasWorkers(Protocol):
    """A read model that has the workers at one moment: PipelineStatus or SiteState."""

    @property
    def now(self) -> datetime: ...
    @property
    def workers(self) -> list[Worker]: ...


def workers_of(model: HasWorkers, queue: str) -> list[Worker]:
    return [worker for worker in model.workers if worker.processes(queue)]


def worker_name(worker: Worker) -> str:
    return f"worker {worker.worker_id}{f' on {worker.host}' if worker.host else ''}"


def holder_name(state: SiteState, job: Job) -> str:
    """Name of the worker that holds the job's claim, or held it last."""
    for worker in state.workers:
        if worker.holder is not None and worker.holder == job.holder:
            return worker_name(worker)
    if job.holder is None:
        return f"worker {job.worker_id}" if job.worker_id is not None else "an unknown worker"
    match = _HOLDER.fullmatch(job.holder)
    return f"process {match[1]} on {match[2]}" if match else job.holder


def no_worker(model: HasWorkers, queue: str) -> str:
    """Say that no worker processes a queue, and why: none is alive, or the live ones process other queues."""
    alive = [worker for worker in model.workers if worker.alive]
    unregistered = [worker for worker in alive if not worker.registered]
    if not alive:
        last = max(model.workers, key=lambda worker: worker.last_heartbeat, default=None)
        heartbeat = f" (last heartbeat: {worker_name(last)}, {_ago(model, last)})" if last else ""
        return f"no worker processes queue {queue}: no worker is alive{heartbeat}"
    if unregistered:
        count = len(unregistered)
        have = "worker has" if count == 1 else "workers have"
        return f"no worker is known to process queue {queue}: {count} {have} not registered which queues it processes"
    queues = join_words(sorted({name for worker in alive for name in worker.queues or ()}))
    process = "the live worker processes" if len(alive) == 1 else f"the {len(alive)} live workers process"
    return f"no worker processes queue {queue}: {process} only {queues}"


def start_worker(model: HasWorkers, queue: str) -> str:
    """The remedy if no worker processes a queue. One for this queue alone only if other queues have workers:
    otherwise the site would wait again in its next stage."""
    if any(worker.alive for worker in model.workers):
        return f"start a worker: clerk worker --queues {queue}"
    return "start workers: clerk worker, or everything: clerk up"


def _ago(model: HasWorkers, worker: Worker) -> str:
    return format_relative(worker.last_heartbeat, model.now)


def host_problem(model: HasWorkers, queue: str) -> Problem | None:
    """The problem of the machine because of which no worker takes jobs of a queue; None if a worker takes them."""
    workers = workers_of(model, queue)
    if any(worker.takes_jobs(queue) for worker in workers):
        return None
    return next((worker.problems[queue] for worker in workers), None)


def count_workers(model: HasWorkers, queue: str) -> str:
    """How many workers take jobs of a queue; if machines have a problem, of how many that process it."""
    workers = workers_of(model, queue)
    taking = sum(worker.takes_jobs(queue) for worker in workers)
    return f"{taking:,}" if taking == len(workers) else f"{taking:,} of {len(workers):,}"


def waits_for(model: HasWorkers, queue: Row) -> str:
    """What the jobs of a queue of PipelineStatus wait for, unless it is paused; empty if they do not wait."""
    waits = []
    if queue["lost"]:
        waits.append(f"the rescue of {pluralize(queue['lost'], 'job')} of dead workers")
    if (queue["waiting"] or queue["lost"]) and not workers_of(model, queue["queue"]):
        waits.append("a worker")
    # Its jobs may all be scheduled: those that failed with the problem are retried later.
    if (problem := host_problem(model, queue["queue"])) is not None:
        waits.append(f"the machine ({problem.error_code})")
    return f"waits for {join_words(waits)}" if waits and not queue["paused"] else ""


def cannot_process(model: HasWorkers, queue: str) -> str:
    """Say which workers cannot process jobs of a queue because of their machine, and why."""
    found: dict[tuple[str, str], list[tuple[Worker, Problem]]] = {}
    for worker in workers_of(model, queue):
        if (problem := worker.problems.get(queue)) is not None:
            found.setdefault((problem.error_code, problem.message), []).append((worker, problem))
    return "; ".join(
        machine_problem([worker for worker, _ in cases], [problem for _, problem in cases]) for cases in found.values()
    )


def machine_problem(workers: list[Worker], problems: list[Problem]) -> str:
    """Say that workers cannot process jobs of the queues of these problems, which are one problem."""
    queues = sorted({problem.queue for problem in problems})
    return (
        f"{join_words([worker_name(worker) for worker in workers])} cannot process jobs of"
        f" queue{'s' if len(queues) > 1 else ''} {join_words(queues)} ({problems[0].error_code}: {problems[0].message})"
    )


def processed_by(model: HasWorkers, queue: str) -> str:
    workers = workers_of(model, queue)
    return f"processed by {worker_name(workers[0]) if len(workers) == 1 else pluralize(len(workers), 'worker')}"


def running_job(state: SiteState, job: Job) -> str:
    """The job's worker, its progress and how long it has run."""
    progress = ""
    if job.progress and job.progress_total:
        unit = {"ocr": "page", "fetch": "document"}.get(job.stage, "step")
        progress = f"{unit} {job.progress:,} of {job.progress_total:,}"
    duration = format_duration(state.now - job.claimed_at) if job.claimed_at else ""
    return ", ".join(filter(None, (holder_name(state, job), progress, duration)))
