"""Procrastinate job manager with fencing: every finish and retry passes the attempt that it is for.

Handles lost responses: a finish that was committed is recognised as this worker's own, and a job that was claimed in a
lost response is started.
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

# The settings are local to the statement's transaction. A materialized CTE is evaluated before the function is called.
_FINISH = """
with result as materialized (
    select set_config('clerk.attempt', %(attempt)s::text, true),
           set_config('clerk.error_code', %(error_code)s::text, true),
           set_config('clerk.error_message', %(error_message)s::text, true)
)
select procrastinate_finish_job_v1(%(job_id)s, %(status)s, false) from result
"""
_RETRY = """
with result as materialized (
    select set_config('clerk.attempt', %(attempt)s::text, true),
           set_config('clerk.error_code', %(error_code)s::text, true),
           set_config('clerk.error_message', %(error_message)s::text, true)
)
select procrastinate_retry_job_v2(%(job_id)s, now() + %(delay)s::float8 * interval '1 second', %(new_priority)s,
                                  %(new_queue_name)s, %(new_lock)s)
from result
"""
_CHECK_REJECTED_RESULT = "select clerk_check_rejected_result(%(job_id)s, %(attempt)s, %(status)s) as reason"
_CLAIMED_BY_WORKER = """
select j.id, j.status, j.task_name, j.priority, j.lock, j.queueing_lock, j.args, j.scheduled_at, j.queue_name,
       j.attempts, j.worker_id
from job_claims c
join procrastinate_jobs j on j.id = c.job_id
where c.holder = %(holder)s and c.settled_as is null and j.status = 'doing' and j.worker_id = %(worker_id)s
order by j.id
"""
# The claim has the attempt: if a rescued job returned to this process, two attempts at it may run.
_RENEW = """
select c.job_id, c.attempt
from clerk_renew_leases(%(job_ids)s) as renewed
join job_claims c on c.job_id = renewed
"""
# Procrastinate's own query scans the waiting jobs of all other queues.
_FETCH = """
select id, status, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name, attempts, worker_id
from clerk_fetch_jobs(%(queues)s::text[], %(worker_id)s, %(slots)s)
"""
# Also registers a worker again that was deleted as stalled while it had no connection.
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
_RAISE_EXCEPTION = "P0001"
"""SQLSTATE of the fence's rejection."""
Attempt = tuple[int, int]
"""Job id and attempt number. A process may run two attempts at a job, if the first one was rescued."""


@dataclass(frozen=True)
class Failure:
    """Error of a failed attempt, for the ledger."""

    code: str
    message: str


class ClerkJobManager(JobManager):
    connector: ClerkConnector

    def __init__(self, connector: ClerkConnector) -> None:
        super().__init__(connector)
        self.failures: dict[Attempt, Failure] = {}
        """Errors of failed attempts. The worker adds one before it finishes or retries the job."""
        self.max_attempts: dict[str, int] = {}
        """Stage → maximum number of attempts, from stage_policy."""
        self.renewal_interval = 20.0
        """Seconds between renewals of leases: a third of the shortest lease in stage_policy."""
        self._running: dict[int, set[Attempt]] = {}
        """Worker → attempts that it has claimed and not settled."""
        self.free_slots: dict[int, Callable[[], int]] = {}
        """Worker → number of jobs that it can start now. Set by the worker."""
        self._queues: dict[int, list[str] | None] = {}
        """Worker → its queues; None for all."""
        self._fetched: dict[int, deque[jobs.Job]] = {}
        """Worker → jobs that were claimed for its free slots and that it has not started."""
        self._handled_unknown_outcomes = 0

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> jobs.Job | None:
        fetched = self._fetched.setdefault(worker_id, deque())
        if not fetched:
            rows = await self._claimed_in_lost_response(worker_id) or await self._fetch(queues, worker_id)
            fetched.extend(jobs.Job.from_row(row) for row in rows)
            self._running.setdefault(worker_id, set()).update((row["id"], row["attempts"]) for row in rows)
        return fetched.popleft() if fetched else None

    async def _claimed_in_lost_response(self, worker_id: int) -> list[dict[str, Any]]:
        """Jobs that this worker claimed in a statement whose response was lost."""
        if self.connector.unknown_outcomes == self._handled_unknown_outcomes:
            return []
        self._handled_unknown_outcomes = self.connector.unknown_outcomes
        # Copied before the query: a job may be settled, and removed from the set, while the query runs.
        known = set(self._running.get(worker_id, ()))
        rows = await self.connector.execute_query_all_async(
            query=_CLAIMED_BY_WORKER, holder=self.connector.holder, worker_id=worker_id
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
        """Return claimed jobs to the queue, for other workers, when a worker stops."""
        self.free_slots.pop(worker_id, None)
        for job in self._fetched.pop(worker_id, ()):
            await self.retry_job(job)

    async def finish_job(self, job: jobs.Job, status: jobs.Status, delete_job: bool) -> None:
        """Ignores `delete_job`: success and failure could not be told apart by the deletion. Retention deletes jobs."""
        if status == jobs.Status.FAILED and job.id is not None:
            # The worker records every error of a task. Only a job without a task fails without one.
            not_found = Failure(TaskNotFound.code, f"this worker has no task {job.task_name}")
            self.failures.setdefault((job.id, job.attempts), not_found)
        await self._settle(job, status.value, _FINISH, {"status": status.value})

    async def retry_job(
        self,
        job: jobs.Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        # Passed as a delay, because this machine's clock may differ from the database's.
        delay = None if retry_at is None else (retry_at - datetime.now(UTC)).total_seconds()
        arguments = {"delay": delay, "new_priority": priority, "new_queue_name": queue, "new_lock": lock}
        try:
            await self._settle(job, jobs.Status.TODO.value, _RETRY, arguments)
        except exceptions.UniqueViolation:
            # Another job with its queueing lock is waiting (a coordinator that was deferred again).
            logger.info("job %s is not retried: the same job is already queued", job.id)
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
            if not isinstance(error.__cause__, psycopg.Error) or error.__cause__.sqlstate != _RAISE_EXCEPTION:
                raise
            await self._log_rejected(job, status)
        self.failures.pop(attempt, None)
        for running in self._running.values():
            running.discard(attempt)

    async def _log_rejected(self, job: jobs.Job, status: str) -> None:
        row = await self.connector.execute_query_one_async(
            query=_CHECK_REJECTED_RESULT, job_id=job.id, attempt=job.attempts, status=status
        )
        if row["reason"] == "fenced":
            logger.warning(
                "the result of job %s (attempt %s) was rejected: the attempt no longer holds the job",
                job.id,
                job.attempts,
            )

    async def register_process(self, worker_id: int, queues: Iterable[str] | None) -> None:
        """Record a worker's process and queues: Procrastinate stores only the worker's id."""
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
        """Returns the attempts that still hold their job."""
        rows = await self.connector.execute_query_all_async(query=_RENEW, job_ids=[job for job, _ in attempts])
        return {(row["job_id"], row["attempt"]) for row in rows}
