"""Periodic tasks: start due sites, rescue jobs of lost workers, create digests, reconcile, delete old rows. Queue
`coordinator`.
"""

from __future__ import annotations

import logging
from datetime import timedelta

import procrastinate
from procrastinate import App

from clerk.db import audit
from clerk.pipeline import engine, run_spans
from clerk.pipeline.engine import COORDINATOR_QUEUE
from clerk.pipeline.job_context import JobContext
from clerk.reconcile import apply, log
from clerk.reconcile.file_checks import StorageScan
from clerk.saved_searches import deliveries, feeds, jobs
from clerk.telemetry import variables

logger = logging.getLogger(__name__)


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
    """Create the digests of saved searches that are due, and defer deliveries again whose job was deleted."""
    job = JobContext(context)
    with job.connection() as connection:
        feeds.remove_stale(connection, job.settings)
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


PERIODIC = {
    schedule: "* * * * *",
    rescue: "* * * * *",
    schedule_deliveries: "* * * * *",
    reconcile: "*/15 * * * *",
    retention: "17 * * * *",
}
"""Task → its cron expression."""
_TRACING = {trace_runs: "* * * * *"}
"""Deferred by workers that export traces. Every worker has the task."""


def register(app: App) -> None:
    """In every worker process: a Procrastinate worker without periodic tasks stops monitoring its own heartbeat and
    listener."""
    for function, cron in {**PERIODIC, **_TRACING}.items():
        name = f"clerk.{function.__name__}"
        task = app.task(name=name, queue=COORDINATOR_QUEUE, queueing_lock=name, pass_context=True)(function)
        if function in PERIODIC or variables.is_requested("TRACES"):
            app.periodic(cron=cron)(task)
