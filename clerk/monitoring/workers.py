"""Read model of workers: host, queues, heartbeat and current jobs of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from psycopg.rows import class_row

from clerk.monitoring.query import Connection


@dataclass(frozen=True)
class Problem:
    """A problem of a worker's machine, such as a full disk."""

    queue: str
    error_code: str
    message: str
    since: datetime


@dataclass(frozen=True)
class Worker:
    worker_id: int
    holder: str | None
    host: str | None
    pid: str | None
    queues: list[str] | None
    """None: every queue, if the worker is registered."""
    registered: bool
    """False: a worker of another version, which has not recorded its queues."""
    last_heartbeat: datetime
    alive: bool
    running: int
    current_jobs: str | None
    problems: dict[str, Problem] = field(default_factory=dict)
    """Queue → problem of its machine, because of which it takes no jobs of the queue."""

    def processes(self, queue: str) -> bool:
        """Whether it takes jobs of the queue, or would without a problem of its machine."""
        return self.alive and self.registered and (self.queues is None or queue in self.queues)

    def takes_jobs(self, queue: str) -> bool:
        return self.processes(queue) and queue not in self.problems


_PROBLEMS = "select worker_id, queue, error_code, message, since from worker_problems order by worker_id, queue"
_WORKERS = """
select worker_id, holder, host, pid, queues, registered_at is not null as registered, last_heartbeat, alive,
       running::integer, doing as current_jobs
from worker_status order by alive, worker_id
"""
# A worker's application_name is "<12 hex digits> clerk <pid> <host>", which Postgres cuts at 63 bytes.
_ACTIVE_PROCESSES = """
select count(distinct application_name) from pg_stat_activity
where application_name ~ '^[0-9a-f]{12} clerk [0-9]+ '
  and regexp_replace(application_name, '^[0-9a-f]{12} clerk [0-9]+ ', '')
      = left(%(host)s, 63 - length(substring(application_name from '^[0-9a-f]{12} clerk [0-9]+ ')))
  and state_change > now() - interval '1 minute'
"""


def read_workers(connection: Connection) -> list[Worker]:
    """Dead workers come first."""
    with connection.cursor(row_factory=class_row(Worker)) as cursor:
        workers = {worker.worker_id: worker for worker in cursor.execute(_WORKERS).fetchall()}
    for worker_id, *columns in connection.execute(_PROBLEMS).fetchall():
        if worker_id in workers:
            problem = Problem(*columns)
            workers[worker_id].problems[problem.queue] = problem
    return list(workers.values())


def count_active_processes(connection: Connection, host: str) -> int:
    """Count the worker processes of a host that sent a statement within the last minute.

    Limitation: a database user that is not a member of the workers' role sees no sessions, so the count is 0.
    """
    row = connection.execute(_ACTIVE_PROCESSES, {"host": host}).fetchone()
    assert row is not None
    return int(row[0])
