"""Celery with a pool of threads: it has no `async def`, and its pools of processes and greenlets were slower.

Results are not stored. A worker neither gossips nor synchronises nor sends heartbeats to the others.
"""

from __future__ import annotations

import os

from celery import Celery
from redis import Redis
from worker_report import Options, Report

options = Options.from_command_line()
report = Report(options)
redis = Redis.from_url(options.url)
app = Celery(broker=options.url)
app.conf.task_ignore_result = True


def unit(site: int) -> None:
    with report.unit():
        if redis.incr(f"done:{site}") == options.units_per_site:
            app.send_task("coordinator", (site,))


def coordinator(_: int) -> None:
    report.count_coordinator()


app.task(name="unit")(unit)
app.task(name="coordinator")(coordinator)

if __name__ == "__main__":
    if options.command == "enqueue":
        with app.producer_or_acquire() as producer:
            for site in options.site_of_each_unit():
                app.send_task("unit", (site,), producer=producer)
    else:
        report.wait_for_start()
        arguments = (
            f"--pool=threads --concurrency={options.concurrency} --hostname=worker{os.getpid()} --loglevel=WARNING"
        )
        isolation = "--without-gossip --without-mingle --without-heartbeat"
        app.worker_main(f"worker {arguments} {isolation}".split())
