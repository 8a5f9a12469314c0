"""The jobs that keep the pipeline going: coordinators, and what the clock does. All on the queue `coordinator`."""

from __future__ import annotations

import logging
from datetime import timedelta

from procrastinate import App, JobContext, RetryStrategy

from clerk.db import audit
from clerk.pipeline import engine
from clerk.pipeline.connector import ClerkConnector
from clerk.reconcile import apply, log
from clerk.reconcile.file_checks import StorageScan

logger = logging.getLogger(__name__)

QUEUE = "coordinator"
_AGAIN = RetryStrategy(max_attempts=10, exponential_wait=2)


def _connector(context: JobContext) -> ClerkConnector:
    assert isinstance(context.app.connector, ClerkConnector)
    return context.app.connector


def coordinate(context: JobContext, subdomain: str, run_id: int, phase: int) -> str:
    """End a phase: start the next one, or end the run."""
    with _connector(context).connection() as connection:
        result = engine.advance_phase(connection, subdomain, run_id, phase)
    logger.info("phase %s is over: %s", phase, result)
    return result


def refresh(context: JobContext, subdomain: str) -> int | None:
    """Documents were healed after their phase: compile and deploy once more."""
    with _connector(context).connection() as connection:
        return engine.start_refresh_run(connection, subdomain)


def schedule(context: JobContext, timestamp: int) -> int:
    """Start every site that is due. Any number of these may run at once: each site is started once."""
    started = 0
    with _connector(context).connection() as connection:
        while subdomain := engine.start_next_due_site(connection):
            logger.info("started the run that was due for %s", subdomain)
            started += 1
    return started


def rescue(context: JobContext, timestamp: int) -> int:
    """Jobs of dead workers are taken up within a minute or two, not only with the next reconciliation."""
    with _connector(context).connection() as connection:
        return apply.rescue_expired(connection)


def reconcile(context: JobContext, timestamp: int) -> int:
    """Find what reality broke, and mend it."""
    connector = _connector(context)
    with connector.connection() as connection:
        audit.set_actor(connection, "worker")
        return len(apply.reconcile(connection, StorageScan(connector.settings)).done)


def retention(context: JobContext, timestamp: int) -> int:
    """Remove jobs that ended long ago, a batch per transaction, and old history of repairs and moves."""
    connector = _connector(context)
    removed = 0
    with connector.connection() as connection:
        before = engine.now(connection) - timedelta(hours=connector.settings.keep_jobs_hours)
        while batch := engine.remove_finished_jobs(connection, before):
            removed += batch
        log.delete_old(connection)
    return removed


_BY_THE_CLOCK = {schedule: "* * * * *", rescue: "* * * * *", reconcile: "*/15 * * * *", retention: "17 * * * *"}


def register(app: App) -> None:
    """Every worker process gets these: one without periodic tasks stops watching its own heartbeat and listener."""
    app.task(name="clerk.coordinate", queue=QUEUE, retry=_AGAIN, pass_context=True)(coordinate)
    app.task(name="clerk.refresh", queue=QUEUE, retry=_AGAIN, pass_context=True)(refresh)
    for body, cron in _BY_THE_CLOCK.items():
        name = f"clerk.{body.__name__}"
        app.periodic(cron=cron)(app.task(name=name, queue=QUEUE, queueing_lock=name, pass_context=True)(body))
