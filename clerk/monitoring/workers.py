"""Read model of workers: host, queues, heartbeat and current jobs of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from psycopg.rows import class_row

from clerk.monitoring.query import Connection
from clerk.process.holder import short_host


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
# Without dead workers that hold no job and were replaced: a supervisor or an operator has restarted them.
_WORKERS = """
select w.worker_id, w.holder, w.host, w.pid, w.queues, w.registered_at is not null as registered, w.last_heartbeat,
       w.alive, w.running::integer, w.doing as current_jobs
from worker_status w
where w.alive or w.running > 0 or not exists (
    select from worker_status other
    where other.alive and other.host = w.host and other.queues is not distinct from w.queues
      and other.registered_at > w.last_heartbeat)
order by w.alive, w.worker_id
"""
# Not from worker_status, which also reads the running jobs: health checks run this every few seconds on every host.
_OF_HOST = """
select p.queues, extract(epoch from clerk_now() - w.last_heartbeat)::float as heartbeat_age
from worker_processes p
join procrastinate_workers w on w.id = p.worker_id
where split_part(p.holder, ' ', 2) = 'clerk' and split_part(p.holder, ' ', 4) = %s
order by w.last_heartbeat desc
"""
_ALIVE_SECONDS = 60
"""As in the view worker_status."""


def read_workers(connection: Connection) -> list[Worker]:
    """Dead workers come first; without those that were replaced."""
    with connection.cursor(row_factory=class_row(Worker)) as cursor:
        workers = {worker.worker_id: worker for worker in cursor.execute(_WORKERS).fetchall()}
    for worker_id, *columns in connection.execute(_PROBLEMS).fetchall():
        if worker_id in workers:
            problem = Problem(*columns)
            workers[worker_id].problems[problem.queue] = problem
    return list(workers.values())


def find_host_problem(connection: Connection, host: str, queues: Iterable[str]) -> str | None:
    """Why the workers of a host are not healthy; None if each of the queues has one with a recent heartbeat."""
    rows = connection.execute(_OF_HOST, (short_host(host),)).fetchall()
    if not rows:
        return f"no worker of this machine ({host}) is registered"
    alive = [served for served, age in rows if age < _ALIVE_SECONDS]
    if not alive:
        return f"the last heartbeat of a worker of this machine ({host}) was {rows[0][1]:.0f} s ago"
    unserved = [queue for queue in queues if not any(served is None or queue in served for served in alive)]
    return f"no worker of this machine ({host}) serves the queue {unserved[0]}" if unserved else None
