"""Procrastinate job manager with fencing: every finish and retry passes the attempt that it is for.

Handles lost responses: a finish that was committed is recognised as this worker's own, and jobs that were claimed in a
lost response are found.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
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
           set_config('clerk.error_message', %(error_message)s::text, true),
           set_config('clerk.traceback', %(traceback)s::text, true)
)
select procrastinate_finish_job_v1(%(job_id)s, %(status)s, false) from result
"""
_RETRY = """
with result as materialized (
    select set_config('clerk.attempt', %(attempt)s::text, true),
           set_config('clerk.uncounted', %(uncounted)s::text, true),
           set_config('clerk.error_code', %(error_code)s::text, true),
           set_config('clerk.error_message', %(error_message)s::text, true),
           set_config('clerk.traceback', %(traceback)s::text, true)
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
_FINISH_AND_FETCH = """
select id, status, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name, attempts, worker_id
from clerk_finish_and_fetch_jobs(%(jobs)s::bigint[], %(attempt)s, %(queues)s::text[], %(worker_id)s, %(slots)s)
"""
_FINISH_JOBS = "select job_id from clerk_finish_jobs(%(jobs)s::bigint[], %(attempt)s) as job_id"
# Also registers a worker again that was deleted as stalled while it had no connection. A heartbeat that is lost in a
# crash of the server is followed by another one, and does not wait for a synchronous standby.
_HEARTBEAT = """
with settings as materialized (
    select set_config('synchronous_commit', 'off', true)
), worker as (
    insert into procrastinate_workers (id, last_heartbeat) overriding system value values (%(worker_id)s, now())
    on conflict (id) do update set last_heartbeat = now()
    returning id
)
insert into worker_processes (worker_id, holder, queues)
select worker.id, %(holder)s, %(queues)s::text[] from worker, settings
on conflict do nothing
"""
_UNCOUNTED_ATTEMPTS = "select uncounted_attempts from job_claims where job_id = %(job_id)s"
_REPORT_PROBLEM = """
insert into host_problems (worker_id, queue, error_code, message)
select w.id, %(queue)s, %(error_code)s, %(message)s from procrastinate_workers w where w.id = %(worker_id)s
on conflict (worker_id, queue) do update set error_code = excluded.error_code, message = excluded.message
where (host_problems.error_code, host_problems.message) <> (excluded.error_code, excluded.message)
"""
_CLEAR_PROBLEM = "delete from host_problems where worker_id = %(worker_id)s and queue = %(queue)s"
_RAISE_EXCEPTION = "P0001"
"""SQLSTATE of the fence's rejection."""
Attempt = tuple[int, int]
"""Job id and attempt number. A process may run two attempts at a job, if the first one was rescued."""


def attempt_of(job: jobs.Job) -> Attempt:
    assert job.id is not None
    return job.id, job.attempts


@dataclass(frozen=True)
class Failure:
    """Error of a failed attempt, for the ledger."""

    code: str
    message: str
    traceback: str = ""
    """Of the exception, for the page of the job."""
    is_counted: bool = True
    """Whether the attempt counts towards the maximum: False if database, host or a shutdown ended it."""
    uncounted_before: int = 0
    """Number of earlier attempts that do not count."""


class ClerkJobManager(JobManager):
    connector: ClerkConnector

    def __init__(self, connector: ClerkConnector) -> None:
        super().__init__(connector)
        self.failures: dict[Attempt, Failure] = {}
        """Errors of failed attempts. The worker adds one before it finishes or retries the job."""
        self.fenced: set[Attempt] = set()
        """Attempts whose result was rejected, until the worker has recorded that in their span."""
        self.max_attempts: dict[str, int] = {}
        """Stage → maximum number of attempts, from stage_policy."""
        self.renewal_interval = 20.0
        """Seconds between renewals of leases: a third of the shortest lease in stage_policy."""
        self._queues: dict[int, list[str] | None] = {}
        """Worker → its queues; None for all."""

    async def finish_and_fetch_jobs(
        self, succeeded: Sequence[jobs.Job], queues: list[str] | None, worker_id: int, slots: int
    ) -> tuple[set[int], list[jobs.Job]]:
        """Report successes of one attempt number and claim up to `slots` jobs, in one transaction. Returns the ids of
        the jobs whose result was accepted, and the new jobs. Only a fetch without results is retried: whether a lost
        batch was committed must be found out job by job."""
        execute = self.connector.execute_once if succeeded else self.connector.execute_query_all_async
        rows = await execute(
            query=_FINISH_AND_FETCH,
            jobs=[job.id for job in succeeded],
            attempt=succeeded[0].attempts if succeeded else 0,
            queues=queues,
            worker_id=worker_id,
            slots=slots,
        )
        accepted = {row["id"] for row in rows if row["status"] == jobs.Status.SUCCEEDED.value}
        return accepted, [jobs.Job.from_row(row) for row in rows if row["status"] == jobs.Status.DOING.value]

    async def finish_jobs(self, succeeded: Sequence[jobs.Job]) -> set[int]:
        """Report successes of one attempt number; returns the ids of the jobs whose result was accepted."""
        rows = await self.connector.execute_query_all_async(
            query=_FINISH_JOBS, jobs=[job.id for job in succeeded], attempt=succeeded[0].attempts
        )
        return {row["job_id"] for row in rows}

    async def claimed_jobs(self, worker_id: int) -> list[jobs.Job]:
        """The running jobs that a worker of this process has claimed."""
        rows = await self.connector.execute_query_all_async(
            query=_CLAIMED_BY_WORKER, holder=self.connector.holder, worker_id=worker_id
        )
        return [jobs.Job.from_row(row) for row in rows]

    async def finish_job(self, job: jobs.Job, status: jobs.Status, delete_job: bool) -> None:
        """Ignores `delete_job`: success and failure could not be told apart by the deletion. Retention deletes jobs."""
        if status == jobs.Status.FAILED:
            # The worker records every error of a task. Only a job without a task fails without one.
            not_found = Failure(TaskNotFound.code, f"this worker has no task {job.task_name}")
            self.failures.setdefault(attempt_of(job), not_found)
        await self._settle(job, status.value, _FINISH, {"status": status.value})

    async def retry_job(
        self,
        job: jobs.Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        failure = self.failures.get(attempt_of(job))
        uncounted = failure is None or not failure.is_counted  # without a failure: released before it started
        # Passed as a delay, because this machine's clock may differ from the database's.
        delay = None if retry_at is None else (retry_at - datetime.now(UTC)).total_seconds()
        arguments: dict[str, Any] = {"uncounted": str(int(uncounted)), "delay": delay}
        arguments |= {"new_priority": priority, "new_queue_name": queue, "new_lock": lock}
        try:
            await self._settle(job, jobs.Status.TODO.value, _RETRY, arguments)
        except exceptions.UniqueViolation:
            # Another job with its queueing lock is waiting (a coordinator that was deferred again).
            logger.info("job %s is not retried: the same job is already queued", job.id)
            await self._settle(job, jobs.Status.FAILED.value, _FINISH, {"status": jobs.Status.FAILED.value})

    async def _settle(self, job: jobs.Job, status: str, query: LiteralString, arguments: dict[str, Any]) -> None:
        attempt = attempt_of(job)
        failure = self.failures.get(attempt, Failure("", ""))
        try:
            await self.connector.execute_query_async(
                query=query,
                job_id=job.id,
                attempt=str(job.attempts),
                error_code=failure.code,
                error_message=failure.message,
                traceback=failure.traceback,
                **arguments,
            )
        except exceptions.ConnectorException as error:
            if not isinstance(error.__cause__, psycopg.Error) or error.__cause__.sqlstate != _RAISE_EXCEPTION:
                raise
            await self.log_rejected(job, status)
        self.failures.pop(attempt, None)

    async def uncounted_attempts(self, job: jobs.Job) -> int:
        """How many of the job's earlier attempts do not count towards the maximum."""
        if not job.attempts:
            return 0
        rows = await self.connector.execute_query_all_async(query=_UNCOUNTED_ATTEMPTS, job_id=job.id)
        return int(rows[0]["uncounted_attempts"]) if rows else 0

    async def report_problem(self, worker_id: int, queue: str, error_code: str, message: str) -> None:
        """Record why a worker takes no jobs of a queue. Deleted with the worker."""
        await self.connector.execute_query_async(
            query=_REPORT_PROBLEM,
            worker_id=worker_id,
            queue=queue,
            error_code=error_code,
            message=message,
        )

    async def clear_problem(self, worker_id: int, queue: str) -> None:
        await self.connector.execute_query_async(query=_CLEAR_PROBLEM, worker_id=worker_id, queue=queue)

    async def log_rejected(self, job: jobs.Job, status: str) -> None:
        """Find out why a result was rejected, and log it unless it had been committed before."""
        row = await self.connector.execute_query_one_async(
            query=_CHECK_REJECTED_RESULT, job_id=job.id, attempt=job.attempts, status=status
        )
        if row["reason"] == "fenced":
            self.fenced.add(attempt_of(job))
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
