"""Rate limit per host, shared by all workers through Postgres: concurrent requests and interval between them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

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
            await self.limiter.renew(self.id)


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
        while True:
            slot_id, wait = await self.reserve(host, max(self.interval, min_interval))
            if slot_id is not None:
                break
            if wait > max_wait:
                raise DownloadFailed(f"{host} requested a pause, {wait:.0f} s of which remain")
            await asyncio.sleep(min(wait, 5.0) * random.uniform(0.5, 1.0))  # noqa: S311 (jitter)
        try:
            await asyncio.sleep(wait)
            yield Slot(self, slot_id)
        finally:
            await asyncio.shield(self.release(slot_id))

    async def reserve(self, host: str, interval: float) -> tuple[int | None, float]:
        """A slot, and the seconds until its request may start; or None, and the seconds until the next reservation."""
        arguments = [host, timedelta(seconds=interval), self.concurrency, timedelta(seconds=self.lease)]
        query = "select slot_id, wait from clerk_reserve_host_slot(%s, %s, %s, %s)"
        slot_id, wait = await self._execute(query, arguments)
        return slot_id, wait.total_seconds()

    async def renew(self, slot_id: int) -> None:
        await self._execute("select clerk_renew_host_slot(%s, %s)", [slot_id, timedelta(seconds=self.lease)])

    async def release(self, slot_id: int) -> None:
        await self._execute("select clerk_release_host_slot(%s)", [slot_id])

    async def back_off(self, host: str, seconds: float, reason: str) -> None:
        """Stop requests of all workers to a host that asked for a pause."""
        await self._execute("select clerk_back_off_host(%s, %s, %s)", [host, timedelta(seconds=seconds), reason])

    async def _execute(self, query: Any, arguments: list[Any]) -> tuple[Any, ...]:
        def run() -> tuple[Any, ...]:
            with self.connect() as connection:
                row = connection.execute(query, arguments).fetchone()
            assert row is not None
            return tuple(row)

        return await asyncio.to_thread(run)


@dataclass
class _Host:
    next_at: float = 0.0
    held_until: float = 0.0
    slots: int = 0


class LocalRateLimiter(HostRateLimiter):
    """The same limits within this process, for a command that finds no database: there are no workers then either."""

    def __init__(self, interval: float, concurrency: int, request_timeout: float) -> None:
        super().__init__(_no_database, interval, concurrency, request_timeout)
        self._hosts: dict[str, _Host] = {}
        self._host_of: dict[int, _Host] = {}

    async def reserve(self, host: str, interval: float) -> tuple[int | None, float]:
        now, state = time.monotonic(), self._hosts.setdefault(host, _Host())
        if state.held_until > now:
            return None, state.held_until - now
        if state.slots >= self.concurrency:
            return None, 0.1
        start = max(state.next_at, now)
        state.next_at, state.slots = start + interval, state.slots + 1
        slot_id = max(self._host_of, default=0) + 1
        self._host_of[slot_id] = state
        return slot_id, start - now

    async def renew(self, slot_id: int) -> None:
        pass  # the slots of a process end with it

    async def release(self, slot_id: int) -> None:
        self._host_of.pop(slot_id).slots -= 1

    async def back_off(self, host: str, seconds: float, reason: str) -> None:
        state = self._hosts.setdefault(host, _Host())
        state.held_until = max(state.held_until, time.monotonic() + seconds)


def _no_database() -> NoReturn:
    raise RuntimeError("this rate limiter has no database")
