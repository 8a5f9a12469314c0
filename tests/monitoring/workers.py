"""Workers that say what they read, and workers that die."""

from __future__ import annotations

import psycopg

from clerk.pipeline.job_manager import _HEARTBEAT
from tests.engine.helpers import Worker, rows, start


def register(hand: Worker, *queues: str) -> Worker:
    """As every worker does with its first heartbeat, in the very words."""
    said = {"worker_id": hand.number, "holder": hand.name, "queues": list(queues)}
    hand.connection.execute(_HEARTBEAT, said)
    return hand


def die(connection: psycopg.Connection, *workers: Worker) -> None:
    """Not heard of for five minutes."""
    numbers = [worker.number for worker in workers]
    connection.execute(
        "update procrastinate_workers set last_heartbeat = now() - interval '5 minutes' where id = any (%s)", [numbers]
    )


def in_phase(connection: psycopg.Connection, phase: int) -> int:
    """A run that has got there, and none of the helpers that brought it there."""
    before = [row[0] for row in rows(connection, "select id from procrastinate_workers")]
    run = start(connection, phase=phase)
    connection.execute("delete from procrastinate_workers where id <> all (%s)", [before])
    return run
