"""PGQueuer, with its asyncpg driver and with uvloop, which its own command uses.

Its jobs are `async def`. A plain function runs with asyncio.to_thread, as its documentation says.
"""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, PgQueuer, Queries
from pgqueuer.models import Job
from postgres_counter import PostgresCounter
from worker_report import Options, Report

BATCH_SIZE = 10
"""The default. The number of jobs at once is limited by the connections of the counter and by the threads: with
PGQueuer's own limit, max_concurrent_tasks, a worker at its limit sleeps for 0.1 s."""
TUNED_BATCH_SIZE = 50


async def enqueue(options: Options) -> None:
    connection = await asyncpg.connect(options.url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    payloads = [str(site).encode() for site in options.site_of_each_unit()]
    await queries.enqueue(["unit"] * len(payloads), payloads, [0] * len(payloads))
    await connection.close()


async def work(options: Options) -> None:
    report = Report(options)
    counter = await PostgresCounter.connect(options)
    queue = PgQueuer.from_asyncpg_connection(await asyncpg.connect(options.url))

    async def unit(job: Job) -> None:
        with report.unit():
            if options.threads:
                await asyncio.to_thread(lambda: None)
            await counter.count(
                int(job.payload),
                lambda connection: Queries(AsyncpgDriver(connection)).enqueue("coordinator", job.payload),
            )

    async def coordinator(_: Job) -> None:
        report.count_coordinator()

    queue.entrypoint("unit")(unit)
    queue.entrypoint("coordinator")(coordinator)
    report.wait_for_start()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(options.concurrency))
    loop.add_signal_handler(signal.SIGTERM, queue.shutdown.set)
    await queue.run(batch_size=TUNED_BATCH_SIZE if options.tuned else BATCH_SIZE)


if __name__ == "__main__":
    options = Options.from_command_line()
    uvloop.run(enqueue(options) if options.command == "enqueue" else work(options))
