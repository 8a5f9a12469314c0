"""Workers that register their queues, and workers that die."""

from __future__ import annotations

import psycopg

from clerk.pipeline.job_manager import _HEARTBEAT
from tests.engine.helpers import Job, Worker, rows, start


def register(worker: Worker, *queues: str) -> Worker:
    """Register the worker with the statement of its heartbeat."""
    values = {"worker_id": worker.number, "holder": worker.name, "queues": list(queues)}
    worker.connection.execute(_HEARTBEAT, values)
    return worker


def die(connection: psycopg.Connection, *workers: Worker) -> None:
    """Set the last heartbeat to five minutes ago."""
    numbers = [worker.number for worker in workers]
    connection.execute(
        "update procrastinate_workers set last_heartbeat = now() - interval '5 minutes' where id = any (%s)", [numbers]
    )


def defer_schedule(connection: psycopg.Connection, worker: Worker, timestamp: int) -> Job:
    """Defer the periodic task that starts due runs, as Procrastinate does, and let the worker take its job."""
    connection.execute(
        "select procrastinate_defer_periodic_job_v2('coordinator', null, 'clerk.schedule', 'clerk.schedule',"
        " 0::smallint, '', %s::bigint, '{}')",
        [timestamp],
    )
    return worker.take("coordinator")


def fail_schedule(connection: psycopg.Connection, worker: Worker) -> None:
    job = defer_schedule(connection, worker, 0)
    worker.finish(job, "failed", "DatabaseFailed", "permission denied for view x")


def in_phase(connection: psycopg.Connection, phase: int) -> int:
    """Start a run in this phase, and remove the workers that did the earlier phases."""
    before = [row[0] for row in rows(connection, "select id from procrastinate_workers")]
    run = start(connection, phase=phase)
    connection.execute("delete from procrastinate_workers where id <> all (%s)", [before])
    return run
