"""The fan-in that a user of PGQueuer or awa-pg writes by hand: a row per site that counts its finished units.

No peer can finish a job in the user's transaction: a job that is run again after a crash is counted twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from worker_report import Options


class PostgresCounter:
    """Counts with a small pool of asyncpg connections, as many as jobs run at once.

    The last unit of a site is counted in one transaction with the insertion of the coordinator. So is every other unit,
    unless the peer is to be tuned: then a single statement counts it.
    """

    def __init__(self, pool: asyncpg.Pool, options: Options) -> None:
        self._pool = pool
        self._units_per_site = options.units_per_site
        self._tuned = options.tuned

    @classmethod
    async def connect(cls, options: Options) -> PostgresCounter:
        size = options.concurrency
        return cls(await asyncpg.create_pool(options.url, min_size=size, max_size=size), options)

    async def count(self, site: int, enqueue_coordinator: Callable[[asyncpg.Connection], Awaitable[Any]]) -> None:
        if self._tuned and await self._count_unless_last(site):
            return
        async with self._pool.acquire() as connection, connection.transaction():
            done = await connection.fetchval("update counters set done = done + 1 where site = $1 returning done", site)
            if done == self._units_per_site:
                await enqueue_coordinator(connection)

    async def _count_unless_last(self, site: int) -> bool:
        return bool(
            await self._pool.fetchval(
                "update counters set done = done + 1 where site = $1 and done < $2 - 1 returning true",
                site,
                self._units_per_site,
            )
        )
