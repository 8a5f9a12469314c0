"""Huey with worker threads: it has no `async def`, and its worker processes and greenlets were slower.

Results are not stored.
"""

from __future__ import annotations

from huey import RedisHuey
from worker_report import Options, Report

options = Options.from_command_line()
report = Report(options)
huey = RedisHuey(url=options.url, results=False)


def count_unit(site: int) -> None:
    with report.unit():
        if huey.storage.conn.incr(f"done:{site}") == options.units_per_site:
            coordinator(site)


def count_coordinator(_: int) -> None:
    report.count_coordinator()


unit = huey.task(name="unit")(count_unit)
coordinator = huey.task(name="coordinator")(count_coordinator)

if __name__ == "__main__":
    if options.command == "enqueue":
        for site in options.site_of_each_unit():
            unit(site)
    else:
        report.wait_for_start()
        huey.create_consumer(workers=options.concurrency, worker_type="thread", periodic=False).run()
