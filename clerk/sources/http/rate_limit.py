"""Leave to ask a host: so many requests at once and so far apart, counted in Postgres over all workers."""

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

_SHORTEST_LEASE = 60.0


class Slot:
    """Leave for one request."""

    def __init__(self, hosts: HostRateLimiter, slot_id: int) -> None:
        self.hosts = hosts
        self.id = slot_id
        self._renewed_at = time.monotonic()

    async def keep(self) -> None:
        """Call it while the request goes on; the lease is renewed when it is time."""
        if time.monotonic() - self._renewed_at > self.hosts.lease / 3:
            self._renewed_at = time.monotonic()
            await self.hosts.ask("select clerk_renew_host_slot(%s, %s)", [self.id, timedelta(seconds=self.hosts.lease)])


class HostRateLimiter:
    def __init__(self, connect: Connect, interval: float, concurrency: int, request_timeout: float) -> None:
        self.connect = connect
        self.interval = interval
        self.concurrency = concurrency
        # Between two pieces of an answer the timeout may pass without a chance to renew.
        self.lease = max(_SHORTEST_LEASE, 3 * request_timeout)

    @contextlib.asynccontextmanager
    async def slot(self, host: str, patience: float) -> AsyncIterator[Slot]:
        """Wait for leave. A host on hold for longer than `patience` seconds is given up."""
        arguments = [
            host,
            timedelta(seconds=self.interval),
            self.concurrency,
            timedelta(seconds=self.lease),
        ]
        while True:
            slot_id, wait = await self.ask(
                "select slot_id, wait from clerk_reserve_host_slot(%s, %s, %s, %s)", arguments
            )
            if slot_id is not None:
                break
            if wait.total_seconds() > patience:
                raise DownloadFailed(f"{host} asked to be left alone for another {wait.total_seconds():.0f} s")
            await asyncio.sleep(min(wait.total_seconds(), 5.0) * random.uniform(0.5, 1.0))  # noqa: S311 (jitter)
        try:
            await asyncio.sleep(wait.total_seconds())
            yield Slot(self, slot_id)
        finally:
            await asyncio.shield(self.ask("select clerk_release_host_slot(%s)", [slot_id]))

    async def back_off(self, host: str, seconds: float, why: str) -> None:
        """The host asked for a pause: no worker disturbs it."""
        await self.ask("select clerk_back_off_host(%s, %s, %s)", [host, timedelta(seconds=seconds), why])

    async def ask(self, query: Any, arguments: list[Any]) -> tuple[Any, ...]:
        def run() -> tuple[Any, ...]:
            with self.connect() as connection:
                row = connection.execute(query, arguments).fetchone()
            assert row is not None
            return tuple(row)

        return await asyncio.to_thread(run)
