"""Periodic tasks: start due sites, rescue jobs of lost workers, create digests, reconcile, delete old rows, and if
CLERK_MAINTAIN_HOUR is set, maintain the database. Queue `coordinator`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import procrastinate
from procrastinate import App
from procrastinate.tasks import Task

from clerk.db import audit
from clerk.db.connection import connect
from clerk.db.maintenance import Maintenance
from clerk.pipeline import engine, run_spans
from clerk.pipeline.engine import COORDINATOR_QUEUE
from clerk.pipeline.job_context import JobContext
from clerk.reconcile import apply, log
from clerk.reconcile.file_checks import StorageScan
from clerk.saved_searches import deliveries, feeds, jobs
from clerk.telemetry import variables

logger = logging.getLogger(__name__)
_MAINTAIN_TIME_LIMIT = 50 * 60.0


def schedule(context: procrastinate.JobContext, timestamp: int) -> int:
    """Start every site that is due. Several of these may run concurrently: each site is started once."""
    started = 0
    with JobContext(context).connection() as connection:
        while subdomain := engine.start_next_due_site(connection):
            logger.info("started a run of %s, which was due", subdomain)
            started += 1
    return started


def rescue(context: procrastinate.JobContext, timestamp: int) -> int:
    """Give jobs with an expired lease to other workers, without waiting for the next reconciliation."""
    with JobContext(context).connection() as connection:
        return apply.rescue_expired(connection)


def reconcile(context: procrastinate.JobContext, timestamp: int) -> int:
    """Detect and repair inconsistent pipeline state."""
    job = JobContext(context)
    with job.session() as connection:
        audit.set_actor(connection, "worker")
        return len(apply.reconcile(connection, StorageScan(job.settings)).done)


def schedule_deliveries(context: procrastinate.JobContext, timestamp: int) -> int:
    """Create the digests of saved searches that are due, defer deliveries again whose job was deleted, and write or
    delete the feeds of saved searches that were added or removed."""
    job = JobContext(context)
    with job.connection() as connection:
        feeds.remove_stale(connection, job.settings)
        feeds.write_missing(connection, job.settings)
        return deliveries.create_due_digests(connection, job.settings) + jobs.redefer_lost(connection)


def retention(context: procrastinate.JobContext, timestamp: int) -> int:
    """Delete jobs that ended long ago, a batch per transaction, and old rows of logs and saved searches."""
    job = JobContext(context)
    removed = 0
    with job.connection() as connection:
        before = engine.now(connection) - timedelta(hours=job.settings.keep_jobs_hours)
        while batch := engine.remove_finished_jobs(connection, before):
            removed += batch
        log.delete_old(connection)
        engine.delete_old_matches(connection)
    return removed


def trace_runs(context: procrastinate.JobContext, timestamp: int) -> int:
    """Record the root spans of runs that no coordinator of this process ended, such as cancelled runs."""
    with JobContext(context).connection() as connection:
        return run_spans.record_ended_runs(connection)


def maintain(context: procrastinate.JobContext, timestamp: int) -> int:
    """Vacuum tables and rebuild bloated indexes, for less than the hour after which a periodic job loses its lease."""
    job = JobContext(context)
    done = 0
    with connect(job.settings) as connection, job.cancel_on_abort(connection):
        maintenance = Maintenance(connection, time_limit=_MAINTAIN_TIME_LIMIT)
        for result in maintenance.run():
            job.raise_if_cancelled()
            done += result.error is None
    return done


PERIODIC = {
    schedule: "* * * * *",
    rescue: "* * * * *",
    schedule_deliveries: "* * * * *",
    reconcile: "*/15 * * * *",
    retention: "17 * * * *",
}
"""Task → its cron expression."""


def register(app: App) -> None:
    """In every worker process: a Procrastinate worker without periodic tasks stops monitoring its own heartbeat and
    listener."""
    for task, cron in PERIODIC.items():
        app.periodic(cron=cron)(_register_task(app, task))
    # Workers that export traces defer this one; every worker has the task.
    trace = _register_task(app, trace_runs)
    if variables.is_requested("TRACES"):
        app.periodic(cron="* * * * *")(trace)
    _register_task(app, maintain)


def schedule_maintenance(app: App, hour: int | None) -> None:
    """Let the workers of this app defer `maintain` every day at this hour, or never. Called when a worker starts, not
    when the app is imported, because an invalid setting must not prevent an import."""
    key = (_task_name(maintain), "")
    if hour is not None and key not in app.periodic_registry.periodic_tasks:
        app.periodic(cron=f"0 {hour} * * *")(app.tasks[key[0]])


def _register_task(app: App, task: Callable[[procrastinate.JobContext, int], int]) -> Task[..., Any, ...]:
    name = _task_name(task)
    return app.task(name=name, queue=COORDINATOR_QUEUE, queueing_lock=name, pass_context=True)(task)


def _task_name(task: Callable[..., Any]) -> str:
    return f"clerk.{task.__name__}"
