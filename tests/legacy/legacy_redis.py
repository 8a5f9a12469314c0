"""A Redis server for tests, with jobs like those of legacy clerk."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError
from rq import Queue
from rq.job import Dependency, Job, JobStatus

from tests.helpers import until


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Start a server on a Unix socket, without persistence; yields its URL."""
    program = shutil.which("redis-server")
    if program is None:
        reason = "redis-server is not installed; bin/setup --for-tests installs one"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        socket = Path(folder) / "s"
        command = [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", folder]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                url = f"unix://{socket}?db=0"
                with contextlib.closing(Redis.from_url(url)) as connection:
                    until(lambda: _is_ready(connection))
                yield url
            finally:
                process.terminate()


def _is_ready(connection: Redis) -> bool:
    try:
        return bool(connection.ping())
    except RedisError:
        return False


class LegacyRq:
    """The queues of legacy clerk. Its functions need not exist: RQ stores only their names."""

    def __init__(self, connection: Redis) -> None:
        self.connection = connection

    def queue(self, name: str) -> Queue:
        return Queue(name, connection=self.connection)

    def waiting(self, queue: str, function: str, **kwargs: Any) -> Job:
        job: Job = self.queue(queue).enqueue(f"clerk.workers.{function}", kwargs=kwargs)
        return job

    def scheduled(self, queue: str, function: str, **kwargs: Any) -> Job:
        when = datetime(2030, 1, 1, tzinfo=UTC)
        job: Job = self.queue(queue).enqueue_at(when, f"clerk.workers.{function}", kwargs=kwargs)
        return job

    def failed(self, queue: str, function: str, error: str = "", **kwargs: Any) -> Job:
        """A failed job with its error, as an RQ worker leaves it."""
        job = self.waiting(queue, function, **kwargs)
        self.queue(queue).remove(job)
        job.set_status(JobStatus.FAILED)
        self.queue(queue).failed_job_registry.add(job)
        if error:
            self.connection.hset(job.key, "exc_info", zlib.compress(f"Traceback …\n{error}".encode()))
        return job

    def deferred(self, queue: str, function: str, after: Job, **kwargs: Any) -> Job:
        dependency = Dependency(jobs=[after])
        job: Job = self.queue(queue).enqueue(f"clerk.workers.{function}", kwargs=kwargs, depends_on=dependency)
        return job
