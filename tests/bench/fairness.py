"""Fairness between sites: what a fetch costs behind a long queue, and how long a small site waits behind a large one.

fetch     milliseconds per fetch of one job and of ten, with 100 to 100,000 waiting jobs of one site and of many
wait      jobs and seconds before the first and the last document of a small site that starts while a large one is
          processed by real workers; `by age` is the same without turns, as before clerk had them
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clerk.cli.progress_reporter import ProgressReporter
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.pipeline import engine
from tests.bench.engine import SETTINGS
from tests.bench.engine_measure import Connection, add_site, create_schema, wait_for, workers
from tests.conftest import Databases, running

WAITING = (100, 10_000, 100_000)
SITES = (1, 2_000)
_FETCHES = 200
_FETCH = "select count(*) from clerk_finish_and_fetch_jobs('{}', 0, array['ocr'], %s, %s)"
_PROCESSED = """
select count(*) >= %s from content_item_pipeline_state l join content_items i on i.id = l.content_item_id
where i.subdomain = %s and l.pipeline = 'ocr' and l.status = 'processed'
"""
# Claims are timed by the database, so that a slow poll of this process does not count.
_WAIT = """
with claim as (
    select c.claimed_at, c.settled_at, j.args ->> 'subdomain' as site
    from job_claims c join procrastinate_jobs j on j.id = c.job_id
    where j.queue_name = 'ocr' and c.claimed_at >= %(started)s
), small as (
    select min(claimed_at) as first, max(claimed_at) as last, min(settled_at) as first_end, max(settled_at) as last_end
    from claim where site = 'town'
)
select extract(epoch from small.first_end - %(started)s)::float8,
       extract(epoch from small.last_end - %(started)s)::float8,
       (select count(*) from claim where site = 'city' and claimed_at < small.first),
       (select count(*) from claim where site = 'city' and claimed_at <= small.last)
from small
"""
Figures = dict[str, Any]


def measure_fetches(databases: Databases, sites: int, waiting: int) -> Figures:
    """Each fetch is committed, with its claims and ledger rows, as a worker does it."""
    with connect_to(databases.create()) as connection:
        create_schema(connection, "clerk")
        for number in range(sites):
            add_site(connection, f"site{number}", waiting // sites)
            engine.start_run(connection, f"site{number}", first_phase=2)
        connection.execute("vacuum analyze")
        worker_id = _value(connection, "select worker_id from procrastinate_register_worker_v1()")
        found = {
            f"{slots} per fetch, ms": statistics.median(
                _milliseconds(functools.partial(connection.execute, _FETCH, [worker_id, slots]))
                for _ in range(_FETCHES if waiting > _FETCHES * slots else waiting // (2 * slots))
            )
            for slots in (1, 10)
        }
        add_site(connection, "town", 10)
        found["start of a phase of 10, ms"] = _milliseconds(
            functools.partial(engine.start_run, connection, "town", first_phase=2)
        )
    databases.drop_all()
    return found


def measure_wait(databases: Databases, turns: bool, large: int, small: int) -> Figures:
    """The large site has a tenth of its documents processed when the small one starts."""
    url = databases.create()
    with connect_to(url) as connection:
        create_schema(connection, "clerk")
        add_site(connection, "city", large)
        add_site(connection, "town", small)
        with workers("clerk", "sleep", url, "ocr,coordinator", 2):
            with connection.transaction():
                engine.start_run(connection, "city", first_phase=2)
                _order_by_age(connection, turns)
            wait_for(connection, _PROCESSED, [large // 10, "city"])
            started = _value(connection, "select clock_timestamp()")
            with connection.transaction():
                engine.start_run(connection, "town", first_phase=2)
                _order_by_age(connection, turns)
            wait_for(connection, _PROCESSED, [small, "town"], every=0.2)
            row = connection.execute(_WAIT, {"started": started}).fetchone()
            assert row is not None
    databases.drop_all()
    first_second, last_second, before_first, before_last = row
    return {
        "jobs of the large site before the first": before_first,
        "before the last": before_last,
        "seconds to the end of the first": first_second,
        "of the last": last_second,
    }


def _order_by_age(connection: Connection, turns: bool) -> None:
    if not turns:
        connection.execute("update procrastinate_jobs set turn = 0 where status = 'todo'")


def _milliseconds(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return 1000 * (time.monotonic() - started)


def _value(connection: Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bin/bench fairness", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--large", type=int, default=10_000, help="documents of the large site (default: 10,000)")
    parser.add_argument("--small", type=int, default=20, help="documents of the small site (default: 20)")
    parser.add_argument("--only", choices=("fetch", "wait"), nargs="+", default=["fetch", "wait"])
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    arguments = parser.parse_args()
    results: dict[str, Figures] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Server(Path(folder) / "postgres", options=SETTINGS)) as url,
        ProgressReporter(arguments.quiet) as progress,
    ):
        os.environ["STORAGE_DIR"] = f"{folder}/storage"
        databases = Databases(url)
        for sites in SITES if "fetch" in arguments.only else ():
            for waiting in WAITING:
                if waiting >= sites:
                    results[f"{waiting:,} waiting, {sites:,} sites"] = measure_fetches(databases, sites, waiting)
                    progress.note(f"fetch, {waiting:,} waiting, {sites:,} sites")
        for turns in (False, True) if "wait" in arguments.only else ():
            case = "in turns" if turns else "by age"
            results[case] = measure_wait(databases, turns, arguments.large, arguments.small)
            progress.note(f"wait, {case}")
    if arguments.json:
        print(json.dumps(results, indent=2))  # noqa: T201
        return
    for case, figures in results.items():
        print(f"{case}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))  # noqa: T201


if __name__ == "__main__":
    main()
