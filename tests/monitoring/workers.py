"""Workers that register their queues, and workers that die."""

from __future__ import annotations

import psycopg

from clerk.pipeline.job_manager import _HEARTBEAT
from tests.engine.helpers import Worker, rows, start


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


def in_phase(connection: psycopg.Connection, phase: int) -> int:
    """Start a run in this phase, and remove the workers that did the earlier phases."""
    before = [row[0] for row in rows(connection, "select id from procrastinate_workers")]
    run = start(connection, phase=phase)
    connection.execute("delete from procrastinate_workers where id <> all (%s)", [before])
    return run
