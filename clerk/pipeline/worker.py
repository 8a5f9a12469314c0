"""A Procrastinate worker that keeps its claims alive, says why a job failed, and ends itself when it is cut off.

Any worker of `clerk.app.app` is one of these, the stock `procrastinate worker` included.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from procrastinate import exceptions, job_context, worker

from clerk import errors, logs
from clerk.pipeline.connector import RETRY_DEADLINE, ClerkConnector
from clerk.pipeline.job_manager import ClerkJobManager, Failure
from clerk.process import sd_notify

logger = logging.getLogger(__name__)

EX_TEMPFAIL = 75
"""Exit code of a worker that is of no more use (EX_TEMPFAIL): the supervisor starts another."""
_RENEW_AT_LEAST_EVERY = 20.0
_LOOK_EVERY = 5.0
_ROUND_TRIP_TAKES_AT_MOST = 10.0
_START_TAKES_AT_MOST = RETRY_DEADLINE + 60.0
"""Seconds until the watchdog runs: a database that is away is waited for, and one that never answers is left."""


async def record_failure(
    call_next: Callable[[], Awaitable[Any]], context: job_context.JobContext, running_in: worker.Worker
) -> Any:
    """Outermost around every job: names it in the logs, and keeps the reason of a failure for the ledger."""
    assert isinstance(running_in, ClerkWorker)
    running_in.begin(context)
    with logs.job_logging(context.job):
        try:
            return await call_next()
        except (exceptions.JobAborted, asyncio.CancelledError) as error:
            if running_in.is_out_of_time(context):
                late = errors.TimeLimitExceeded("the job ran past the time limit of its stage")
                running_in.note(context, late)
                raise late from error
            running_in.note(context, errors.JobAborted("the job was asked to stop"))
            raise
        except BaseException as error:
            running_in.note(context, error)
            raise


class ClerkWorker(worker.Worker):
    def __init__(
        self,
        *arguments: Any,
        db_timeout: float = 300.0,
        unresponsive_after: float = 60.0,
        start_within: float = _START_TAKES_AT_MOST,
        **options: Any,
    ) -> None:
        options["worker_middleware"] = [record_failure, *(options.get("worker_middleware") or [])]
        super().__init__(*arguments, **options)
        self.db_timeout = db_timeout
        self.unresponsive_after = unresponsive_after
        self._until_watched = threading.Timer(start_within, _leave_unstarted)
        self._until_watched.daemon = True
        self._out_of_time: dict[tuple[int, int], float] = {}
        """Job and attempt → since when we know that its claim is not ours, or no longer."""
        self._unreported: Exception | None = None

    @property
    def _manager(self) -> ClerkJobManager:
        assert isinstance(self.app.job_manager, ClerkJobManager)
        return self.app.job_manager

    async def _run_loop(self) -> None:
        assert self.worker_id is not None
        await self._manager.register_process(self.worker_id, self.queues)
        await super()._run_loop()

    def _start_side_tasks(self) -> list[asyncio.Task[Any]]:
        return [
            *super()._start_side_tasks(),
            asyncio.create_task(self._renew_leases(), name="renew_leases"),
            asyncio.create_task(self._watch(), name="watchdog"),
        ]

    async def _fetch_and_process_jobs(self) -> None:
        assert self.worker_id is not None
        self._manager.free_slots[self.worker_id] = lambda: self.concurrency - len(self._running_jobs)
        try:
            await super()._fetch_and_process_jobs()
        finally:
            await self._manager.release_unstarted(self.worker_id)

    async def _shutdown(self, side_tasks: list[asyncio.Task[Any]]) -> None:
        """Procrastinate stops the heartbeat before it drains; a long drain would look like a death."""
        sd_notify.notify(sd_notify.STOPPING)
        draining = [
            asyncio.create_task(self._update_heartbeat(), name="heartbeat while draining"),
            asyncio.create_task(self._renew_leases(), name="leases while draining"),
        ]
        try:
            await super()._shutdown(side_tasks)
        finally:
            for task in draining:
                task.cancel()
            await asyncio.gather(*draining, return_exceptions=True)

    def begin(self, context: job_context.JobContext) -> None:
        """A process can be given back a job that was taken from it: what was said to the older attempt is not for
        the new one."""
        self._job_ids_to_abort.pop(_attempt(context)[0], None)

    def is_out_of_time(self, context: job_context.JobContext) -> bool:
        return _attempt(context) in self._out_of_time

    def note(self, context: job_context.JobContext, error: BaseException) -> None:
        code, message = errors.code_and_message(error)
        # Postgres cannot store NUL, and a hostile document can put one into a message.
        self._manager.failures[_attempt(context)] = Failure(code, message.replace("\0", "")[:500])

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._manager.renew_every)
            running = {_attempt(context): task for task, context in self._running_jobs.items()}
            held = await self._manager.renew_leases(list(running))
            for attempt, task in running.items():
                # Finished meanwhile is not lost.
                if attempt not in held and task in self._running_jobs and attempt not in self._out_of_time:
                    logger.warning("job %s is no longer ours or ran past its time limit: asking it to stop", attempt[0])
                    self._out_of_time[attempt] = time.monotonic()
                    if max(number for job, number in running if job == attempt[0]) == attempt[1]:
                        self._abort_job(task, self._running_jobs[task], job_context.AbortReason.USER_REQUEST)
            self._exit_if_unresponsive()

    def _exit_if_unresponsive(self) -> None:
        """A thread that does not stop cannot be stopped, and keeps its place for ever: end the process instead, once
        its other jobs are done. Nothing is lost, since the claim of such a job is."""
        running = {_attempt(context) for context in self._running_jobs.values()}
        self._out_of_time = {attempt: since for attempt, since in self._out_of_time.items() if attempt in running}
        deaf = {a for a, since in self._out_of_time.items() if time.monotonic() - since > self.unresponsive_after}
        if deaf:
            self.stop()
        if deaf and deaf == running:
            logger.critical("jobs %s did not stop: ending, so that a supervisor starts anew", [job for job, _ in deaf])
            logging.shutdown()
            os._exit(EX_TEMPFAIL)

    async def _watch(self) -> None:
        """A real round trip, again and again. A connection that hangs half-open would hang the worker for ever."""
        connector = self.app.connector
        assert isinstance(connector, ClerkConnector)
        self._until_watched.cancel()
        answered_at = connector.listener_heard_at = time.monotonic()
        sd_notify.notify(sd_notify.ALIVE)
        while True:
            await asyncio.sleep(min(_LOOK_EVERY, self.db_timeout / 3))
            try:
                async with asyncio.timeout(_ROUND_TRIP_TAKES_AT_MOST):
                    async with connector.pool.connection() as connection:
                        await connection.execute("select 1")
                answered_at = time.monotonic()
            except Exception as error:  # noqa: BLE001 (whatever it is, it is not an answer)
                logger.warning("watchdog: the database does not answer (%s: %s)", type(error).__name__, error)
            gone = time.monotonic() - min(
                answered_at, connector.listener_heard_at if self.listen_notify else answered_at
            )
            if gone > self.db_timeout:
                logger.critical("cut off from the database for %.0f s: ending, so that a supervisor starts anew", gone)
                logging.shutdown()
                os._exit(EX_TEMPFAIL)
            sd_notify.notify(sd_notify.ALIVE)

    async def _persist_job_status(self, *arguments: Any, **options: Any) -> None:
        """Procrastinate forgets an error here, and goes on to break the next job. What nobody foresaw ends us."""
        try:
            await super()._persist_job_status(*arguments, **options)
        except Exception as error:
            self._unreported = error
            self.stop()
            raise

    async def run(self) -> None:
        self._until_watched.start()
        try:
            await load_policy(self._manager)
            await super().run()
        finally:
            self._until_watched.cancel()
        if self._unreported is not None:
            raise self._unreported


def _leave_unstarted() -> None:
    """From a thread of its own: whatever hangs, it may be the event loop."""
    logger.critical("the start took too long: ending, so that a supervisor starts anew")
    logging.shutdown()
    os._exit(EX_TEMPFAIL)


def _attempt(context: job_context.JobContext) -> tuple[int, int]:
    """Which attempt at which job: one process may run two attempts at the same."""
    assert context.job.id is not None
    return context.job.id, context.job.attempts


async def load_policy(manager: ClerkJobManager) -> None:
    """How often each stage is tried and how long a lease holds, from the table that operators may change."""
    rows = await manager.connector.execute_query_all_async(
        query="select stage, max_attempts, extract(epoch from lease)::float8 as lease from stage_policy"
    )
    manager.max_attempts = {row["stage"]: row["max_attempts"] for row in rows}
    manager.renew_every = min([_RENEW_AT_LEAST_EVERY, *(row["lease"] / 3 for row in rows)])
