"""Host watch: closes a queue of this worker while a problem of the host lasts, reports the problem, and probes it.

If the probe finds no problem, the queue is open again. The report of a full disk ends only when a job succeeds: a job
may need more space than the probe.

Other workers, on other machines, continue. Jobs that already run in this worker are not stopped.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from clerk import host
from clerk.config import Settings
from clerk.documents.storage import require_mounted
from clerk.errors import HostError, StorageUnavailable, StorageUnmounted, ToolMissing
from clerk.object_storage.bucket import Bucket
from clerk.object_storage.path import ObjectPath
from clerk.ocr.engines import find_engine
from clerk.pipeline.engine import STAGES
from clerk.pipeline.job_manager import ClerkJobManager, Failure

logger = logging.getLogger(__name__)


_EXACTLY_PROBED = (ToolMissing, StorageUnmounted)
"""Problems that are gone if the probe finds none. Others may last: a job may need more space or memory."""
_MAX_UNCONFIRMED = 1200.0
"""Seconds after which a problem counts as solved if no job has failed with it again. Longer than the longest delay
before a retry, since the failed job may be the only one."""


class HostWatch:
    def __init__(
        self, manager: ClerkJobManager, worker_id: int, probe_interval: float, on_reopened: Callable[[], None]
    ) -> None:
        self._manager = manager
        self._worker_id = worker_id
        self._probe_interval = probe_interval
        self._on_reopened = on_reopened
        self._closed: set[str] = set()
        self._reported: dict[str, asyncio.Task[None]] = {}
        """Queue with a reported problem → the task that probes it. The queue may be open again, to try a job."""

    def is_closed(self, queue: str) -> bool:
        return queue in self._closed

    async def close_queue(self, queue: str | None, error: type[HostError], failure: Failure) -> None:
        """Take no jobs of the queue until the problem is gone. Coordinators need neither disk nor tools: their queue
        stays open."""
        if queue is None or queue not in STAGES or queue in self._closed:
            return
        logger.error("queue %s is closed in this worker: %s: %s", queue, failure.code, failure.message)
        if queue in self._reported:
            self._reported[queue].cancel()
        self._closed.add(queue)
        self._reported[queue] = asyncio.create_task(self._watch(queue, error, failure), name=f"probe {queue}")

    async def confirm_solved(self, queue: str | None) -> None:
        """End the report of a problem after a job of the queue succeeded, if that job may have started after it."""
        if queue in self._reported and queue not in self._closed:
            self._reported.pop(queue).cancel()
            await self._manager.clear_problem(self._worker_id, queue)

    def stop(self) -> None:
        for task in self._reported.values():
            task.cancel()

    async def _watch(self, queue: str, error: type[HostError], failure: Failure) -> None:
        try:
            await self._probe(queue, error, failure)
            if error in _EXACTLY_PROBED:
                await self._manager.clear_problem(self._worker_id, queue)
        finally:
            # Also after an unexpected error: the next job then finds the problem, if it lasts.
            self._closed.discard(queue)
            self._on_reopened()
        if error not in _EXACTLY_PROBED:
            # A report that ended here would begin again with the next job: no alert would last long enough to be sent.
            await asyncio.sleep(_MAX_UNCONFIRMED)
            await self._manager.clear_problem(self._worker_id, queue)
        del self._reported[queue]

    async def _probe(self, queue: str, error: type[HostError], failure: Failure) -> None:
        problem: HostError | None = error(failure.message)
        while problem is not None:
            # Each time: the row is deleted with the worker's, which others delete if it seems to be dead.
            await self._manager.report_problem(self._worker_id, queue, problem.code, str(problem))
            await asyncio.sleep(self._probe_interval)
            problem = await asyncio.to_thread(find_problem, error, self._manager.connector.settings)
        logger.warning("queue %s is open again: the probe does not find %s", queue, failure.code)


def find_problem(error: type[HostError], settings: Settings) -> HostError | None:
    """The problem of this machine that a job failed with, if it lasts."""
    try:
        if error is ToolMissing:
            find_engine(settings).require_installed()
        elif error is StorageUnmounted:
            require_mounted(settings.storage_dir)
        elif issubclass(error, StorageUnavailable):
            return next(filter(None, (bucket.probe() for bucket in buckets(settings))), None)
        else:
            return host.find_problem(error, folders(settings))
    except HostError as problem:
        return problem
    return None


def folders(settings: Settings) -> Sequence[Path]:
    """The folders that jobs write to."""
    storage = [path for path in (settings.storage_dir, settings.publish_dir) if isinstance(path, Path)]
    return *storage, *([settings.cache_dir] if buckets(settings) else []), Path(tempfile.gettempdir())


def buckets(settings: Settings) -> set[Bucket]:
    return {path.bucket for path in (settings.storage_dir, settings.publish_dir) if isinstance(path, ObjectPath)}
