"""The workers that there are: where each is, which queues it reads, whether it lives and what it does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True)
class Worker:
    worker_id: int
    holder: str | None
    host: str | None
    pid: str | None
    queues: list[str] | None
    """None: all of them, if it is introduced."""
    introduced: bool
    """False: a worker of another version, which does not say what it reads."""
    last_heartbeat: datetime
    alive: bool
    running: int
    doing: str | None

    def reads(self, queue: str) -> bool:
        return self.alive and self.introduced and (self.queues is None or queue in self.queues)


_WORKERS = """
select worker_id, holder, host, pid, queues, registered_at is not null as introduced, last_heartbeat, alive,
       running::integer, doing
from worker_status order by alive, worker_id
"""


def read_workers(connection: psycopg.Connection[Any]) -> list[Worker]:
    """The dead first."""
    with connection.cursor(row_factory=class_row(Worker)) as cursor:
        return cursor.execute(_WORKERS).fetchall()
