"""awa-pg, with its queue-storage engine, and with asyncpg for the counter as its documentation recommends.

Counting in awa's own transactions was slower; several claimers, larger batches and shorter poll intervals were not
faster. Its jobs are `async def`; a plain function runs with asyncio.to_thread.
"""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import awa
import uvloop
from awa.bridge import insert_job
from postgres_counter import PostgresCounter
from worker_report import Options, Report

QUEUE = "units"


@dataclass
class Unit:
    site: int


@dataclass
class Coordinator:
    site: int


def connect(options: Options) -> awa.AsyncClient:
    # awa refuses a URL without a host, even if it has the folder of a socket, which takes precedence.
    return awa.AsyncClient(options.url.replace("@/", "@localhost/"), max_connections=2 * options.concurrency)


async def enqueue(options: Options) -> None:
    async with connect(options) as client:
        await client.migrate()
        await client.install_queue_storage()
        await client.enqueue_many_copy([Unit(site) for site in options.site_of_each_unit()], queue=QUEUE)


async def work(options: Options) -> None:
    report = Report(options)
    counter = await PostgresCounter.connect(options)
    client = connect(options)

    async def unit(job: awa.Job[Unit]) -> None:
        with report.unit():
            if options.threads:
                await asyncio.to_thread(lambda: None)
            site = job.args.site
            await counter.count(site, lambda connection: insert_job(connection, Coordinator(site), queue=QUEUE))

    async def coordinator(_: awa.Job[Coordinator]) -> None:
        report.count_coordinator()

    client.task(Unit, queue=QUEUE)(unit)
    client.task(Coordinator, queue=QUEUE)(coordinator)
    report.wait_for_start()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(options.concurrency))
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await client.start([(QUEUE, options.concurrency)])
    await stop.wait()
    await client.shutdown()


if __name__ == "__main__":
    options = Options.from_command_line()
    uvloop.run(enqueue(options) if options.command == "enqueue" else work(options))
