"""Procrastinate's job manager, with the fence: every finish and retry says which attempt it speaks for.

Also safe against lost answers: a finish that was committed is recognised as ours, and a job that was fetched for
us without our hearing of it is picked up.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, LiteralString

import psycopg
from procrastinate import exceptions, jobs
from procrastinate.manager import JobManager

from clerk.errors import TaskNotFound
from clerk.pipeline.connector import ClerkConnector

logger = logging.getLogger(__name__)

# Said in one statement, and so in one transaction, with what follows: `said` is evaluated before the function.
_FINISH = """
with said as materialized (
    select set_config('clerk.attempt', %(attempt)s::text, true),
           set_config('clerk.error_code', %(error_code)s::text, true),
           set_config('clerk.error_message', %(error_message)s::text, true)
)
select procrastinate_finish_job_v1(%(job_id)s, %(status)s, false) from said
"""
_RETRY = """
with said as materialized (
    select set_config('clerk.attempt', %(attempt)s::text, true),
           set_config('clerk.error_code', %(error_code)s::text, true),
           set_config('clerk.error_message', %(error_message)s::text, true)
)
select procrastinate_retry_job_v2(%(job_id)s, now() + %(pause)s::float8 * interval '1 second', %(new_priority)s,
                                  %(new_queue_name)s, %(new_lock)s)
from said
"""
_WHOSE_RESULT = "select clerk_check_rejected_result(%(job_id)s, %(attempt)s, %(status)s) as whose"
_HELD_BY_US = """
select j.id, j.status, j.task_name, j.priority, j.lock, j.queueing_lock, j.args, j.scheduled_at, j.queue_name,
       j.attempts, j.worker_id
from job_claims c
join procrastinate_jobs j on j.id = c.job_id
where c.holder = %(holder)s and c.settled_as is null and j.status = 'doing' and j.worker_id = %(worker_id)s
order by j.id
"""
# The claim says whose attempt was renewed: a process that was given back its own job speaks for two of them.
_RENEW = """
select c.job_id, c.attempt
from clerk_renew_leases(%(job_ids)s) as renewed
join job_claims c on c.job_id = renewed
"""
# Procrastinate's own walks past the waiting jobs of all other queues.
_FETCH = """
select id, status, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name, attempts, worker_id
from clerk_fetch_jobs(%(queues)s::text[], %(worker_id)s, %(slots)s)
"""
# A worker that was pruned while it was away is simply there again, under its old number and name.
_HEARTBEAT = """
with worker as (
    insert into procrastinate_workers (id, last_heartbeat) overriding system value values (%(worker_id)s, now())
    on conflict (id) do update set last_heartbeat = now()
    returning id
)
insert into worker_processes (worker_id, holder, queues)
select worker.id, %(holder)s, %(queues)s::text[] from worker
on conflict do nothing
"""
_REFUSED = "P0001"
Attempt = tuple[int, int]
"""Job and number of its attempt: one process may run two attempts at the same job, if the first was taken from it."""


@dataclass(frozen=True)
class Failure:
    """What the ledger will say about an attempt that failed."""

    code: str
    message: str


class ClerkJobManager(JobManager):
    connector: ClerkConnector

    def __init__(self, connector: ClerkConnector) -> None:
        super().__init__(connector)
        self.failures: dict[Attempt, Failure] = {}
        """Why an attempt failed; put here by the worker just before the job is given back."""
        self.max_attempts: dict[str, int] = {}
        """Stage → how often a unit of it is tried; read from stage_policy when a worker starts."""
        self.renew_every = 20.0
        """Seconds between two renewals of our leases: a third of the shortest; read likewise."""
        self._running: dict[int, set[Attempt]] = {}
        """Worker → attempts that it was given and has not given back."""
        self.free_slots: dict[int, Callable[[], int]] = {}
        """Worker → how many jobs it could begin at this moment; put here by the worker."""
        self._queues: dict[int, list[str] | None] = {}
        """Worker → what it reads; None is everything."""
        self._fetched: dict[int, deque[jobs.Job]] = {}
        """Worker → jobs that were fetched for its free places and that it has not asked for yet."""
        self._answers_lost = 0

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> jobs.Job | None:
        fetched = self._fetched.setdefault(worker_id, deque())
        if not fetched:
            rows = await self._lost(worker_id) or await self._fetch(queues, worker_id)
            fetched.extend(jobs.Job.from_row(row) for row in rows)
            self._running.setdefault(worker_id, set()).update((row["id"], row["attempts"]) for row in rows)
        return fetched.popleft() if fetched else None

    async def _lost(self, worker_id: int) -> list[dict[str, Any]]:
        """Jobs that were fetched for this worker in an answer that never arrived."""
        if self.connector.unknown_outcomes == self._answers_lost:
            return []
        self._answers_lost = self.connector.unknown_outcomes
        # As of before the question: a job may end, and be forgotten, while its row is on the way to us.
        known = set(self._running.get(worker_id, ()))
        rows = await self.connector.execute_query_all_async(
            query=_HELD_BY_US, holder=self.connector.holder, worker_id=worker_id
        )
        return [row for row in rows if (row["id"], row["attempts"]) not in known]

    async def _fetch(self, queues: Iterable[str] | None, worker_id: int) -> list[dict[str, Any]]:
        free_slots = self.free_slots.get(worker_id)
        arguments = {
            "queues": None if queues is None else list(queues),
            "worker_id": worker_id,
            "slots": free_slots() if free_slots else 1,
        }
        try:
            return await self.connector.execute_query_all_async(query=_FETCH, **arguments)
        except exceptions.ConnectorException as error:
            if not isinstance(error.__cause__, psycopg.errors.ForeignKeyViolation):
                raise
            await self.update_heartbeat(worker_id)
            return await self.connector.execute_query_all_async(query=_FETCH, **arguments)

    async def release_unstarted(self, worker_id: int) -> None:
        """A worker that was asked to stop does not begin what was fetched for it: others may."""
        self.free_slots.pop(worker_id, None)
        for job in self._fetched.pop(worker_id, ()):
            await self.retry_job(job)

    async def finish_job(self, job: jobs.Job, status: jobs.Status, delete_job: bool) -> None:
        """`delete_job` is passed over: with a deleted row success and failure look alike. Retention deletes."""
        if status == jobs.Status.FAILED and job.id is not None:
            # Every error of a task is noted by the worker; only a task that nobody knows fails without one.
            unknown = Failure(TaskNotFound.code, f"this worker knows no task {job.task_name}")
            self.failures.setdefault((job.id, job.attempts), unknown)
        await self._settle(job, status.value, _FINISH, {"status": status.value})

    async def retry_job(
        self,
        job: jobs.Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        # How long from now, by the database's clock: ours may be off.
        pause = None if retry_at is None else (retry_at - datetime.now(UTC)).total_seconds()
        arguments = {"pause": pause, "new_priority": priority, "new_queue_name": queue, "new_lock": lock}
        try:
            await self._settle(job, jobs.Status.TODO.value, _RETRY, arguments)
        except exceptions.UniqueViolation:
            # Its twin waits in the queue already (a coordinator deferred again): one of them is enough.
            logger.info("job %s is not retried: the same one waits already", job.id)
            await self._settle(job, jobs.Status.FAILED.value, _FINISH, {"status": jobs.Status.FAILED.value})

    async def _settle(self, job: jobs.Job, status: str, query: LiteralString, arguments: dict[str, Any]) -> None:
        assert job.id is not None
        attempt = (job.id, job.attempts)
        failure = self.failures.get(attempt, Failure("", ""))
        try:
            await self.connector.execute_query_async(
                query=query,
                job_id=job.id,
                attempt=str(job.attempts),
                error_code=failure.code,
                error_message=failure.message,
                **arguments,
            )
        except exceptions.ConnectorException as error:
            if not isinstance(error.__cause__, psycopg.Error) or error.__cause__.sqlstate != _REFUSED:
                raise
            await self._refused(job, status)
        self.failures.pop(attempt, None)
        for running in self._running.values():
            running.discard(attempt)

    async def _refused(self, job: jobs.Job, status: str) -> None:
        row = await self.connector.execute_query_one_async(
            query=_WHOSE_RESULT, job_id=job.id, attempt=job.attempts, status=status
        )
        if row["whose"] == "fenced":
            logger.warning("the result of job %s (attempt %s) came too late and was ignored", job.id, job.attempts)

    async def register_process(self, worker_id: int, queues: Iterable[str] | None) -> None:
        """Tell who a worker is and what it reads: Procrastinate itself knows workers by number only."""
        self._queues[worker_id] = None if queues is None else list(queues)
        await self.update_heartbeat(worker_id)

    async def update_heartbeat(self, worker_id: int) -> None:
        await self.connector.execute_query_async(
            query=_HEARTBEAT,
            worker_id=worker_id,
            holder=self.connector.holder,
            queues=self._queues.get(worker_id),
        )

    async def renew_leases(self, attempts: list[Attempt]) -> set[Attempt]:
        """Which of these we still hold."""
        rows = await self.connector.execute_query_all_async(query=_RENEW, job_ids=[job for job, _ in attempts])
        return {(row["job_id"], row["attempt"]) for row in rows}
