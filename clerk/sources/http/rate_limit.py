"""Rate limit per host, shared by all workers through Postgres: concurrent requests and interval between them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import psycopg

from clerk.errors import DownloadFailed

Connect = Callable[[], AbstractContextManager[psycopg.Connection[Any]]]

_MIN_LEASE = 60.0


class Slot:
    """Permission for one request, held under a lease."""

    def __init__(self, limiter: HostRateLimiter, slot_id: int) -> None:
        self.limiter = limiter
        self.id = slot_id
        self._renewed_at = time.monotonic()

    async def renew(self) -> None:
        """Renew the lease if a third of it has passed. Call this repeatedly during the request."""
        if time.monotonic() - self._renewed_at > self.limiter.lease / 3:
            self._renewed_at = time.monotonic()
            lease = timedelta(seconds=self.limiter.lease)
            await self.limiter.execute("select clerk_renew_host_slot(%s, %s)", [self.id, lease])


class HostRateLimiter:
    def __init__(self, connect: Connect, interval: float, concurrency: int, request_timeout: float) -> None:
        self.connect = connect
        self.interval = interval
        self.concurrency = concurrency
        # Between two chunks of a response the timeout may pass without a chance to renew.
        self.lease = max(_MIN_LEASE, 3 * request_timeout)

    @contextlib.asynccontextmanager
    async def slot(self, host: str, max_wait: float, min_interval: float = 0.0) -> AsyncIterator[Slot]:
        """Wait for a slot. Raises DownloadFailed if the host backs off for longer than `max_wait` seconds.
        `min_interval`: seconds that the host asks for between requests."""
        arguments = [
            host,
            timedelta(seconds=max(self.interval, min_interval)),
            self.concurrency,
            timedelta(seconds=self.lease),
        ]
        while True:
            slot_id, wait = await self.execute(
                "select slot_id, wait from clerk_reserve_host_slot(%s, %s, %s, %s)", arguments
            )
            if slot_id is not None:
                break
            if wait.total_seconds() > max_wait:
                raise DownloadFailed(f"{host} requested a pause, {wait.total_seconds():.0f} s of which remain")
            await asyncio.sleep(min(wait.total_seconds(), 5.0) * random.uniform(0.5, 1.0))  # noqa: S311 (jitter)
        try:
            await asyncio.sleep(wait.total_seconds())
            yield Slot(self, slot_id)
        finally:
            await asyncio.shield(self.execute("select clerk_release_host_slot(%s)", [slot_id]))

    async def back_off(self, host: str, seconds: float, reason: str) -> None:
        """Stop requests of all workers to a host that asked for a pause."""
        await self.execute("select clerk_back_off_host(%s, %s, %s)", [host, timedelta(seconds=seconds), reason])

    async def execute(self, query: Any, arguments: list[Any]) -> tuple[Any, ...]:
        def run() -> tuple[Any, ...]:
            with self.connect() as connection:
                row = connection.execute(query, arguments).fetchone()
            assert row is not None
            return tuple(row)

        return await asyncio.to_thread(run)
