"""A Procrastinate worker that keeps its claims alive, says why a job failed, and ends itself when it is cut off.

Any worker of `clerk.app.app` is one of these, the stock `procrastinate worker` included.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

from procrastinate import exceptions, job_context, worker

from clerk import logs
from clerk.pg.connector import ClerkConnector
from clerk.pg.job_manager import ClerkJobManager, Failure

logger = logging.getLogger(__name__)

CUT_OFF = 75
"""Exit code when database or listener were gone for too long (EX_TEMPFAIL): the supervisor starts another."""
_RENEW_EVERY = 20.0
_LOOK_EVERY = 5.0
_ROUND_TRIP_TAKES_AT_MOST = 10.0


async def note_failure(
    call_next: Callable[[], Awaitable[Any]], context: job_context.JobContext, running_in: worker.Worker
) -> Any:
    """Outermost around every job: names it in the logs, and keeps the reason of a failure for the ledger."""
    manager = context.app.job_manager
    assert isinstance(manager, ClerkJobManager)
    assert context.job.id is not None
    with logs.about(context.job):
        try:
            return await call_next()
        except (exceptions.JobAborted, asyncio.CancelledError):
            manager.failures[context.job.id] = Failure("JobAborted", "the job was asked to stop")
            raise
        except BaseException as error:
            # A NUL cannot be stored, and a hostile document can put one into a message.
            manager.failures[context.job.id] = Failure(type(error).__name__, str(error).replace("\0", "")[:500])
            raise


class ClerkWorker(worker.Worker):
    def __init__(self, *arguments: Any, cut_off_after: float = 300.0, **options: Any) -> None:
        options["worker_middleware"] = [note_failure, *(options.get("worker_middleware") or [])]
        super().__init__(*arguments, **options)
        self.cut_off_after = cut_off_after

    @property
    def _manager(self) -> ClerkJobManager:
        assert isinstance(self.app.job_manager, ClerkJobManager)
        return self.app.job_manager

    def _start_side_tasks(self) -> list[asyncio.Task[Any]]:
        return [
            *super()._start_side_tasks(),
            asyncio.create_task(self._renew_leases(), name="renew_leases"),
            asyncio.create_task(self._watch(), name="watchdog"),
        ]

    async def _shutdown(self, side_tasks: list[asyncio.Task[Any]]) -> None:
        """Procrastinate stops the heartbeat before it drains; a long drain would look like a death."""
        notify_systemd("STOPPING=1")
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

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_EVERY)
            running = {context.job.id: (task, context) for task, context in self._running_jobs.items()}
            held = await self._manager.renew_leases([job_id for job_id in running if job_id is not None])
            for job_id, (task, context) in running.items():
                # Finished meanwhile is not lost.
                if job_id is not None and job_id not in held and task in self._running_jobs:
                    logger.warning("job %s is no longer ours or ran past its time limit: asking it to stop", job_id)
                    self._abort_job(task, context, job_context.AbortReason.USER_REQUEST)

    async def _watch(self) -> None:
        """A real round trip, again and again. A connection that hangs half-open would hang the worker for ever."""
        connector = self.app.connector
        assert isinstance(connector, ClerkConnector)
        answered_at = connector.listener_heard_at = time.monotonic()
        notify_systemd("READY=1")
        while True:
            await asyncio.sleep(_LOOK_EVERY)
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
            if gone > self.cut_off_after:
                logger.critical("cut off from the database for %.0f s: ending, so that a supervisor starts anew", gone)
                logging.shutdown()
                os._exit(CUT_OFF)
            notify_systemd("WATCHDOG=1")

    async def run(self) -> None:
        await load_policy(self._manager)
        await super().run()


async def load_policy(manager: ClerkJobManager) -> None:
    """How often each stage is tried, from the table that operators may change."""
    rows = await manager.connector.execute_query_all_async(query="select stage, max_attempts from stage_policy")
    manager.max_attempts = {row["stage"]: row["max_attempts"] for row in rows}


def notify_systemd(message: str) -> None:
    """sd_notify(3): a datagram to the socket that systemd named, if it did."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagram:
        datagram.connect(address)
        datagram.send(message.encode())
