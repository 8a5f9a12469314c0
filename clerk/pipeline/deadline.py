"""Database connections on which every statement has a deadline: without a response in time, the connection is closed.
So is one whose server has become read-only, so that no pool keeps a connection to the old primary after a failover.

The kernel's timeouts end a connection whose packets are lost. They do not help if something on the way, such as a
pooler or a server that hangs, accepts the statement and never responds.
"""

from __future__ import annotations

import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen as Steps

Result = TypeVar("Result")
_INTERVAL = 0.1


class StatementTimeout(psycopg.OperationalError):
    """No response before the deadline. Whether the statement was executed is unknown."""


class ConnectionWithDeadline(psycopg.Connection[Any]):
    deadline = 60.0
    """Seconds for each statement."""

    def wait(self, gen: Steps[Result], interval: float = _INTERVAL, timeout: float | None = None) -> Result:
        try:
            return super().wait(_until(gen, self.deadline), interval, **_options(timeout))
        except (StatementTimeout, psycopg.errors.ReadOnlySqlTransaction):
            self.pgconn.finish()
            raise


class AsyncConnectionWithDeadline(psycopg.AsyncConnection[Any]):
    deadline = 60.0
    """Seconds for each statement."""

    async def wait(self, gen: Steps[Result], interval: float = _INTERVAL, timeout: float | None = None) -> Result:
        try:
            return await super().wait(_until(gen, self.deadline), interval, **_options(timeout))
        except (StatementTimeout, psycopg.errors.ReadOnlySqlTransaction):
            self.pgconn.finish()
            raise


def _until(gen: Steps[Result], seconds: float) -> Steps[Result]:
    """The same steps of a statement, until the deadline. psycopg resumes it every `interval` seconds, ready or not."""
    deadline = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise StatementTimeout(f"no response from the database within {seconds:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: Result = end.value
        return result


def _options(timeout: float | None) -> dict[str, Any]:
    """psycopg 3.2 does not know the argument, and does not pass it."""
    return {} if timeout is None else {"timeout": timeout}
