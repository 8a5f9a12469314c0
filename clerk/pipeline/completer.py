"""Batch completer: reports succeeded jobs and fetches new ones for the slots that this frees, in one round trip.

Jobs that succeed while a batch is in flight form the next batch. There is no timer: an idle worker reports its result
immediately. Failures and retries are reported one by one, by the job manager.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import psycopg
from procrastinate import exceptions, jobs

from clerk.pipeline.engine import CPU_QUEUES, QUEUES
from clerk.pipeline.job_manager import Attempt, ClerkJobManager, attempt_of

logger = logging.getLogger(__name__)

_MAX_BATCH = 500
_ROUNDS = 6
"""Rounds of the event loop before each batch, so that jobs that end now are in it: jobs in threads end one after the
other. Microseconds on an idle worker."""


class _Success(NamedTuple):
    job: jobs.Job
    settled: asyncio.Future[None]


class BatchCompleter:
    def __init__(
        self,
        manager: ClerkJobManager,
        worker_id: int,
        queues: Iterable[str] | None,
        concurrency: int,
        start: Callable[[jobs.Job], None],
        is_closed: Callable[[str], bool] = lambda queue: False,
        cpu_concurrency: int | None = None,
    ) -> None:
        self._manager = manager
        self._worker_id = worker_id
        self._queues = None if queues is None else list(queues)
        self._concurrency = concurrency
        self._start = start
        self._is_closed = is_closed
        self._cpu_concurrency = cpu_concurrency or concurrency
        """Jobs of CPU_QUEUES at a time."""
        self._asks_again = False
        """The last fetch did not ask for all free slots, or not for jobs of CPU_QUEUES: there may be more jobs."""
        self._claimed: dict[Attempt, jobs.Job] = {}
        """Attempts that occupy a slot: claimed and not settled."""
        self._succeeded: deque[_Success] = deque()
        """Waiting for the next batch."""
        self._task: asyncio.Task[None] | None = None
        self._site_tasks: set[asyncio.Task[None]] = set()
        self._fetches = True
        self._queue_is_empty = asyncio.Event()
        self._fetch_error: BaseException | None = None
        self._handled_unknown_outcomes = manager.connector.unknown_outcomes

    async def finish(self, job: jobs.Job) -> None:
        """Report that a job has succeeded. Returns when the result is committed or was rejected by the fence."""
        success = _Success(job, asyncio.get_running_loop().create_future())
        self._succeeded.append(success)
        self._wake()
        await success.settled

    async def fetch(self) -> None:
        """Fetch jobs whenever a slot is free, until no job is waiting."""
        self._queue_is_empty.clear()
        self._wake()
        await self._queue_is_empty.wait()
        if self._fetch_error is not None:
            raise self._fetch_error

    async def stop_fetching(self) -> None:
        """Fetch no more jobs. Jobs of a fetch in flight are released, for other workers."""
        self._fetches = False
        if self._task is not None:
            await asyncio.wait([self._task])

    def release_slot(self, attempt: Attempt) -> None:
        """Called when a job has ended in any way."""
        self._claimed.pop(attempt, None)
        if self._wants_jobs():
            self._wake()

    def _wants_jobs(self) -> bool:
        may_find_jobs = not self._queue_is_empty.is_set() or (self._asks_again and self._free_cpu_slots() > 0)
        return self._fetches and may_find_jobs and len(self._claimed) < self._concurrency

    def _free_cpu_slots(self, ended: Iterable[_Success] = ()) -> int:
        """How many jobs of CPU_QUEUES may start, once these have ended."""
        running = sum(job.queue in CPU_QUEUES for job in self._claimed.values())
        return self._cpu_concurrency - running + sum(success.job.queue in CPU_QUEUES for success in ended)

    def _wake(self) -> None:
        # A new task starts after the tasks that are ready now, so jobs that end together are in one batch.
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="batch completer")

    async def _run(self) -> None:
        while self._succeeded or self._wants_jobs():
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)
            batch = self._next_batch()
            try:
                await self._exchange(batch)
            except BaseException as error:  # noqa: BLE001 (the jobs, or fetch, raise it)
                # Whatever happens here, no job may wait forever for its batch.
                for success in batch:
                    if not success.settled.done():
                        success.settled.set_exception(error)
                if not batch:
                    self._fetch_error = error
                    self._queue_is_empty.set()
                    return

    def _next_batch(self) -> list[_Success]:
        """Successes of one attempt number: the fence compares all jobs of a statement with one."""
        batch: list[_Success] = []
        while self._succeeded and len(batch) < _MAX_BATCH:
            if batch and self._succeeded[0].job.attempts != batch[0].job.attempts:
                break
            batch.append(self._succeeded.popleft())
        return batch

    async def _exchange(self, batch: list[_Success]) -> None:
        """Finish the jobs of the batch, and fetch and start jobs for all slots that are free then."""
        if self._fetches:
            await self._start_claimed_in_lost_response()
        queues = self._open_queues()
        free = self._concurrency - len(self._claimed) + len(batch)
        cpu_slots = self._free_cpu_slots(batch)
        if cpu_slots <= 0 < free:
            queues = [queue for queue in (queues or QUEUES) if queue not in CPU_QUEUES]
        can_fetch = self._fetches and queues != []
        # At most as many at a time as may be of CPU_QUEUES; the next fetch asks for the rest.
        slots = (min(free, cpu_slots) if cpu_slots > 0 else free) if can_fetch else 0
        try:
            accepted, fetched = await self._manager.finish_and_fetch_jobs(
                [success.job for success in batch], queues, self._worker_id, slots
            )
        except exceptions.UniqueViolation as error:
            # Another worker has claimed a job with the same lock meanwhile. It has committed: the next fetch sees it.
            await self._finish_one_by_one(batch, error)
            return
        except exceptions.ConnectorException as error:
            await self._after_error(batch, error)
            return
        for success in batch:
            if success.job.id not in accepted:
                await self._manager.log_rejected(success.job, jobs.Status.SUCCEEDED.value)
            self._settle(success)
        await self._start_all(fetched)
        self._asks_again = cpu_slots <= 0 < free or (can_fetch and len(fetched) == slots < free)
        if len(fetched) < slots or queues == []:
            self._queue_is_empty.set()

    def _open_queues(self) -> list[str] | None:
        """The worker's queues but those that are closed because of a problem of the host. None: all queues."""
        if self._queues is None and not any(map(self._is_closed, QUEUES)):
            return None
        return [queue for queue in (self._queues or QUEUES) if not self._is_closed(queue)]

    async def _after_error(self, batch: list[_Success], error: exceptions.ConnectorException) -> None:
        if isinstance(error.__cause__, psycopg.errors.ForeignKeyViolation):
            # This worker was deleted as stalled.
            await self._manager.update_heartbeat(self._worker_id)
        elif not batch:
            raise error
        if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
            self._finish_by_site(batch)
        else:
            await self._finish_one_by_one(batch, error)

    async def _finish_one_by_one(self, batch: list[_Success], error: Exception) -> None:
        if batch:
            logger.info("finishing %s jobs one by one after an error: %s", len(batch), error.__cause__ or error)
        await asyncio.gather(*(self._finish_alone(success) for success in batch))

    def _finish_by_site(self, batch: list[_Success]) -> None:
        """A site of the batch is locked. Each site waits for its own lock only, and other jobs go on meanwhile."""
        by_site: dict[object, list[_Success]] = {}
        for success in batch:
            by_site.setdefault(success.job.task_kwargs.get("subdomain"), []).append(success)
        for successes in by_site.values():
            task = asyncio.create_task(self._finish_site(successes), name="finish jobs of one site")
            self._site_tasks.add(task)
            task.add_done_callback(self._site_tasks.discard)

    async def _finish_site(self, successes: list[_Success]) -> None:
        try:
            accepted = await self._manager.finish_jobs([success.job for success in successes])
        except exceptions.ConnectorException as error:
            await self._finish_one_by_one(successes, error)
            return
        for success in successes:
            if success.job.id not in accepted:
                await self._manager.log_rejected(success.job, jobs.Status.SUCCEEDED.value)
            self._settle(success)

    async def _finish_alone(self, success: _Success) -> None:
        try:
            await self._manager.finish_job(success.job, jobs.Status.SUCCEEDED, delete_job=False)
        except Exception as error:  # noqa: BLE001 (the worker stops with it)
            self._fetches = False
            if not success.settled.done():
                success.settled.set_exception(error)
        else:
            self._settle(success)

    def _settle(self, success: _Success) -> None:
        self._claimed.pop(attempt_of(success.job), None)
        if not success.settled.done():
            success.settled.set_result(None)

    async def _start_claimed_in_lost_response(self) -> None:
        """Start jobs that this worker claimed in a statement whose response was lost."""
        unknown_outcomes = self._manager.connector.unknown_outcomes
        if unknown_outcomes == self._handled_unknown_outcomes:
            return
        # Copied before the query: a job may be settled, and removed from the set, while the query runs.
        known = set(self._claimed)
        claimed = await self._manager.claimed_jobs(self._worker_id)
        self._handled_unknown_outcomes = unknown_outcomes
        await self._start_all([job for job in claimed if attempt_of(job) not in known])

    async def _start_all(self, fetched: list[jobs.Job]) -> None:
        for job in fetched:
            running = self._claimed.get(attempt_of(job))
            if running is not None and _is_same(running, job):
                # A failover lost the claim of the attempt that runs here, and this worker has claimed it again.
                logger.info("job %s continues: its claim was lost and renewed", job.id)
            elif self._fetches and running is None:
                self._claimed[attempt_of(job)] = job
                self._start(job)
            else:
                # This worker stops; or a failover lost a job that runs here, and another job has its id now. With the
                # next attempt number the fence can tell them apart.
                await self._manager.retry_job(job)


def _is_same(running: jobs.Job, claimed: jobs.Job) -> bool:
    return (running.task_name, running.task_kwargs) == (claimed.task_name, claimed.task_kwargs)
