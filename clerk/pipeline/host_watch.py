"""Host watch: closes a queue of this worker while a problem of the host lasts, reports the problem, and probes it.

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
from clerk.errors import HostError, StorageUnmounted, ToolMissing
from clerk.ocr.engines import find_engine
from clerk.pipeline.engine import STAGES
from clerk.pipeline.job_manager import ClerkJobManager, Failure

logger = logging.getLogger(__name__)


class HostWatch:
    def __init__(
        self, manager: ClerkJobManager, worker_id: int, probe_interval: float, on_reopened: Callable[[], None]
    ) -> None:
        self._manager = manager
        self._worker_id = worker_id
        self._probe_interval = probe_interval
        self._on_reopened = on_reopened
        self._problems: dict[str, asyncio.Task[None]] = {}
        """Queue → its probe."""

    def is_closed(self, queue: str) -> bool:
        return queue in self._problems

    async def close_queue(self, queue: str | None, error: type[HostError], failure: Failure) -> None:
        """Take no jobs of the queue until the problem is gone. Coordinators need neither disk nor tools: their queue
        stays open."""
        if queue is None or queue not in STAGES or queue in self._problems:
            return
        logger.error("queue %s is closed in this worker: %s: %s", queue, failure.code, failure.message)
        self._problems[queue] = asyncio.create_task(self._probe(queue, error, failure), name=f"probe {queue}")

    def stop(self) -> None:
        for task in self._problems.values():
            task.cancel()

    async def _probe(self, queue: str, error: type[HostError], failure: Failure) -> None:
        problem: HostError | None = error(failure.message)
        try:
            while problem is not None:
                # Each time: the row is deleted with the worker's, which others delete if it seems to be dead.
                await self._manager.report_problem(self._worker_id, queue, problem.code, str(problem))
                await asyncio.sleep(self._probe_interval)
                problem = await asyncio.to_thread(find_problem, error, self._manager.connector.settings)
            await self._manager.clear_problem(self._worker_id, queue)
            logger.warning("queue %s is open again: %s is gone", queue, failure.code)
        finally:
            # Also after an unexpected error: the next job then finds the problem, if it lasts.
            del self._problems[queue]
            self._on_reopened()


def find_problem(error: type[HostError], settings: Settings) -> HostError | None:
    """The problem of this machine that a job failed with, if it lasts."""
    try:
        if error is ToolMissing:
            find_engine(settings).require_installed()
        elif error is StorageUnmounted:
            require_mounted(settings.storage_dir)
        else:
            return host.find_problem(error, folders(settings))
    except HostError as problem:
        return problem
    return None


def folders(settings: Settings) -> Sequence[Path]:
    """The folders that jobs write to."""
    return settings.storage_dir, settings.publish_dir, Path(tempfile.gettempdir())
