"""The worker: a Procrastinate worker that renews leases, records why jobs failed, and exits when it cannot work.

Every worker of `clerk.app.app` is one, including `procrastinate worker`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from procrastinate import exceptions, job_context, jobs, retry, utils, worker

from clerk import errors, logs
from clerk.error_causes import classify, code_and_message
from clerk.host import describe_space
from clerk.humanize import format_traceback
from clerk.pipeline.completer import BatchCompleter
from clerk.pipeline.connector import ClerkConnector
from clerk.pipeline.disk_reports import report_regularly
from clerk.pipeline.host_watch import HostWatch, find_problem, folders
from clerk.pipeline.job_manager import Attempt, ClerkJobManager, Failure, attempt_of
from clerk.process import prctl, sd_notify
from clerk.telemetry import tracing
from clerk.telemetry.trace_context import take_job_ids

logger = logging.getLogger(__name__)

EX_TEMPFAIL = 75
"""Exit code of a worker that cannot continue: the supervisor restarts it."""
_MAX_RENEWAL_INTERVAL = 20.0
_WATCHDOG_INTERVAL = 5.0
_ROUND_TRIP_TIMEOUT = 10.0
_DEBUG_ACTIONS = {"loaded_job_info", "finish_task", "abort_job"}
"""Procrastinate's log messages of level DEBUG."""
_OTHER_THREADS = 4
"""Threads for everything but tasks, such as opening the database."""
_STARTUP_TIME = 60.0
"""Seconds that the start may take, besides a database outage that the worker waits for."""
_FLUSH_TIMEOUT = 5.0
"""Seconds for the export of the last spans. Compose file and systemd units allow more after the end of the last job."""


async def job_middleware(
    call_next: Callable[[], Awaitable[Any]], context: job_context.JobContext, running_in: worker.Worker
) -> Any:
    """Outermost middleware of every job: records why it failed."""
    assert isinstance(running_in, ClerkWorker)
    running_in.start_attempt(context)
    try:
        return await call_next()
    except (exceptions.JobAborted, asyncio.CancelledError) as error:
        if running_in.has_lost_claim(context):
            timeout = errors.TimeLimitExceeded("the job exceeded the time limit of its stage")
            await running_in.record_failure(context, timeout)
            raise timeout from error
        await running_in.record_failure(context, errors.JobAborted("the job was asked to stop"))
        raise
    except BaseException as error:
        await running_in.record_failure(context, error)
        raise


class ClerkWorker(worker.Worker):
    def __init__(
        self,
        *arguments: Any,
        db_timeout: float | None = None,
        unresponsive_after: float = 60.0,
        startup_timeout: float | None = None,
        probe_interval: float = 10.0,
        cpu_concurrency: int | None = None,
        **options: Any,
    ) -> None:
        options["worker_middleware"] = [job_middleware, *(options.get("worker_middleware") or [])]
        super().__init__(*arguments, **options)
        self.db_timeout: float = db_timeout or self._manager.connector.settings.database_timeout
        self.unresponsive_after = unresponsive_after
        self.probe_interval = probe_interval
        self.cpu_concurrency = cpu_concurrency
        """Jobs of queues that use a whole core each, at a time; None: as many as others."""
        self._startup_timer = threading.Timer(startup_timeout or self.db_timeout + _STARTUP_TIME, _exit_unstarted)
        self._startup_timer.daemon = True
        self._lost_claims: dict[Attempt, float] = {}
        """Attempt → when its lease could not be renewed: the job was rescued, or exceeded its time limit."""
        self._settle_error: Exception | None = None
        self._spans: dict[Attempt, tracing.Span] = {}
        """Of the running jobs."""

    @property
    def _manager(self) -> ClerkJobManager:
        assert isinstance(self.app.job_manager, ClerkJobManager)
        return self.app.job_manager

    async def _run_loop(self) -> None:
        prctl.disable_dumps()
        assert self.worker_id is not None
        await self._manager.register_process(self.worker_id, self.queues)
        # A queue that is open again may have waiting jobs.
        self._host_watch = HostWatch(self._manager, self.worker_id, self.probe_interval, self._new_job_event.set)
        self._completer = BatchCompleter(
            self._manager,
            self.worker_id,
            self.queues,
            self.concurrency,
            start=self._start_job,
            is_closed=self._host_watch.is_closed,
            cpu_concurrency=self.cpu_concurrency,
        )
        await self._check_ocr()
        try:
            await super()._run_loop()
        finally:
            self._host_watch.stop()

    async def _check_ocr(self) -> None:
        """Close the OCR queue before the first job if a program that every document needs is not installed."""
        if self.queues and "ocr" not in self.queues:
            return
        problem = await asyncio.to_thread(find_problem, errors.ToolMissing, self._manager.connector.settings)
        if problem is not None:
            failure = Failure(problem.code, str(problem), is_counted=False, uncounted_before=0)
            await self._host_watch.close_queue("ocr", type(problem), failure)

    def _start_side_tasks(self) -> list[asyncio.Task[Any]]:
        return [
            *super()._start_side_tasks(),
            asyncio.create_task(self._renew_leases(), name="renew_leases"),
            asyncio.create_task(self._watchdog(), name="watchdog"),
            asyncio.create_task(report_regularly(self._manager.connector), name="disk reports"),
        ]

    async def _fetch_and_process_jobs(self) -> None:
        self._new_job_event.clear()
        fetching = asyncio.create_task(self._completer.fetch(), name="fetch jobs")
        await utils.wait_any(fetching, self._stop_event.wait())
        if not fetching.cancelled():
            fetching.result()

    def _start_job(self, job: jobs.Job) -> None:
        context = job_context.JobContext(
            app=self.app,
            worker_name=self.worker_name,
            worker_queues=self.queues,
            additional_context=dict(self.additional_context or {}),
            job=job,
            abort_reason=lambda: self._job_ids_to_abort.get(attempt_of(job)[0]),
            start_timestamp=time.time(),
        )
        task = asyncio.create_task(self._process_job(context), name=f"process job {job.task_name}[{job.id}]")
        self._running_jobs[task] = context
        task.add_done_callback(self._end_job)

    async def _process_job(self, context: job_context.JobContext) -> None:
        """Everything logged has the job's fields. The span of the job lasts until its result is committed."""
        attempt = attempt_of(context.job)
        ids = take_job_ids(context.job)
        with logs.job_logging(context.job, ids), tracing.job_span(context.job, ids) as span:
            self._spans[attempt] = span
            try:
                await super()._process_job(context)
            finally:
                del self._spans[attempt]

    def _span_of(self, job: jobs.Job) -> tracing.Span:
        """A job that was cancelled while its result is committed has no span any more."""
        return self._spans.get(attempt_of(job), tracing.Span())

    def _end_job(self, task: asyncio.Task[Any]) -> None:
        context = self._running_jobs.pop(task)
        self._completer.release_slot(attempt_of(context.job))

    def _log_extra(
        self,
        action: str,
        context: job_context.JobContext | None,
        job_result: job_context.JobResult | None,
        **fields: Any,
    ) -> Any:
        """Procrastinate builds this for every log call, four times per job, also if nothing is logged."""
        level = logging.DEBUG if action in _DEBUG_ACTIONS else logging.INFO
        if not self.logger.isEnabledFor(level):
            return {}
        return super()._log_extra(action, context, job_result, **fields)

    async def _shutdown(self, side_tasks: list[asyncio.Task[Any]]) -> None:
        """Procrastinate stops the heartbeat before it waits for running jobs. Without these tasks a worker that waits
        long would count as lost."""
        sd_notify.notify(sd_notify.STOPPING)
        tasks = [
            asyncio.create_task(self._update_heartbeat(), name="heartbeat during shutdown"),
            asyncio.create_task(self._renew_leases(), name="renew_leases during shutdown"),
        ]
        try:
            await self._completer.stop_fetching()
            await super()._shutdown(side_tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def start_attempt(self, context: job_context.JobContext) -> None:
        """Discard an abort request for an earlier attempt: a rescued job can return to the same process."""
        self._job_ids_to_abort.pop(attempt_of(context.job)[0], None)

    def has_lost_claim(self, context: job_context.JobContext) -> bool:
        return attempt_of(context.job) in self._lost_claims

    async def record_failure(self, context: job_context.JobContext, error: BaseException) -> None:
        """Record for the ledger why an attempt failed. After an error of the host, take no more jobs of the queue."""
        error_class = classify(error)
        code, message = code_and_message(error)
        if issubclass(error_class, errors.HostError):
            # The exception of a write does not name the disk.
            problem = await asyncio.to_thread(find_problem, error_class, self._manager.connector.settings)
            if problem is not None and problem.code == code:
                message = str(problem)
            elif error_class is errors.DiskFull:
                # The failed write has been undone, which freed its space.
                space = await asyncio.to_thread(describe_space, folders(self._manager.connector.settings))
                message = f"{message} ({space})"
        is_shutdown = context.abort_reason() == job_context.AbortReason.SHUTDOWN
        failure = Failure(
            code,
            # Postgres cannot store NUL, which a malicious document can put into a message.
            message.replace("\0", "")[:500],
            format_traceback(error),
            is_counted=error_class.cause.is_counted and not is_shutdown,
            uncounted_before=await self._manager.uncounted_attempts(context.job),
        )
        self._manager.failures[attempt_of(context.job)] = failure
        self._span_of(context.job).fail(code)
        if issubclass(error_class, errors.HostError):
            await self._host_watch.close_queue(context.job.queue, error_class, failure)

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._manager.renewal_interval)
            running = {attempt_of(context.job): task for task, context in self._running_jobs.items()}
            renewed = await self._manager.renew_leases(list(running))
            for attempt, task in running.items():
                # A job that finished in the meantime has no lease to renew.
                is_lost = attempt not in renewed and task in self._running_jobs
                if is_lost and attempt not in self._lost_claims:
                    logger.warning("job %s was rescued or exceeded its time limit: asking it to stop", attempt[0])
                    self._lost_claims[attempt] = time.monotonic()
                    if max(number for job, number in running if job == attempt[0]) == attempt[1]:
                        self._abort_job(task, self._running_jobs[task], job_context.AbortReason.USER_REQUEST)
            self._exit_if_unresponsive()

    def _exit_if_unresponsive(self) -> None:
        """Exit if a job ignores its abort request, once the other jobs have ended. A thread cannot be killed and would
        occupy its slot until the process ends. The job's claim is lost anyway."""
        running = {attempt_of(context.job) for context in self._running_jobs.values()}
        self._lost_claims = {attempt: since for attempt, since in self._lost_claims.items() if attempt in running}
        now = time.monotonic()
        unresponsive = {a for a, since in self._lost_claims.items() if now - since > self.unresponsive_after}
        if unresponsive:
            self.stop()
        if unresponsive and unresponsive == running:
            _exit(f"jobs {[job for job, _ in unresponsive]} did not stop")

    async def _watchdog(self) -> None:
        """Query the database regularly, and exit when it does not respond for `db_timeout`: a worker with a half-open
        connection would hang forever."""
        connector = self.app.connector
        assert isinstance(connector, ClerkConnector)
        self._startup_timer.cancel()
        alive_at = connector.listener_alive_at = time.monotonic()
        sd_notify.notify(sd_notify.ALIVE)
        while True:
            await asyncio.sleep(min(_WATCHDOG_INTERVAL, self.db_timeout / 3))
            try:
                async with asyncio.timeout(_ROUND_TRIP_TIMEOUT):
                    async with connector.pool.connection() as connection:
                        await connection.execute("select 1")
                alive_at = time.monotonic()
            except Exception as error:  # noqa: BLE001 (any error means that the database is unavailable)
                logger.warning("watchdog: the database does not respond (%s: %s)", type(error).__name__, error)
            oldest = min(alive_at, connector.listener_alive_at) if self.listen_notify else alive_at
            elapsed = time.monotonic() - oldest
            if elapsed > self.db_timeout:
                _exit(f"the database has not responded for {elapsed:.0f} s")
            sd_notify.notify(sd_notify.ALIVE)

    async def _persist_job_status(
        self,
        job: jobs.Job,
        status: jobs.Status,
        retry_decision: retry.RetryDecision | None,
        context: job_context.JobContext,
        job_result: job_context.JobResult | None,
    ) -> None:
        """Report a success in a batch, anything else on its own. Stop the worker after an unexpected error:
        Procrastinate would discard the error and fail the next job."""
        outcome = "retried" if retry_decision is not None else status.value
        if status == jobs.Status.FAILED and attempt_of(job) not in self._manager.failures:
            self._span_of(job).fail(errors.TaskNotFound.code)
        try:
            if status == jobs.Status.SUCCEEDED and retry_decision is None:
                await self._host_watch.confirm_solved(job.queue)
                await self._completer.finish(job)
                self._job_ids_to_abort.pop(attempt_of(job)[0], None)
            else:
                await super()._persist_job_status(job, status, retry_decision, context, job_result)
        except Exception as error:
            self._settle_error = error
            self.stop()
            outcome = "unknown"
            raise
        finally:
            is_fenced = attempt_of(job) in self._manager.fenced
            self._manager.fenced.discard(attempt_of(job))
            self._span_of(job).set({"clerk.outcome": "fenced" if is_fenced else outcome})

    async def run(self) -> None:
        self._startup_timer.start()
        # Tasks run in threads. The default number of threads depends on the cores and may be below the concurrency.
        threads = concurrent.futures.ThreadPoolExecutor(self.concurrency + _OTHER_THREADS, "clerk")
        asyncio.get_running_loop().set_default_executor(threads)
        tracing.start(self._manager.connector.holder)
        try:
            await load_policy(self._manager)
            await super().run()
        finally:
            self._startup_timer.cancel()
            await asyncio.to_thread(tracing.stop, _FLUSH_TIMEOUT)
        if self._settle_error is not None:
            raise self._settle_error


def _exit_unstarted() -> None:
    """Called in a timer's thread, because the event loop may hang."""
    _exit("the worker did not start in time")


def _exit(reason: str) -> None:
    logger.critical("%s: exiting, so that the supervisor restarts this worker", reason)
    logging.shutdown()
    os._exit(EX_TEMPFAIL)


async def load_policy(manager: ClerkJobManager) -> None:
    """Read the number of attempts and the lease of each stage from `stage_policy`, which operators may change."""
    rows = await manager.connector.execute_query_all_async(
        query="select stage, max_attempts, extract(epoch from lease)::float8 as lease from stage_policy"
    )
    manager.max_attempts = {row["stage"]: row["max_attempts"] for row in rows}
    manager.renewal_interval = min([_MAX_RENEWAL_INTERVAL, *(row["lease"] / 3 for row in rows)])
