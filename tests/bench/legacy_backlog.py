"""Duration of a reconciliation of legacy clerk's backlog: lost coordinators, and failed jobs that were not counted."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from clerk.cli.progress_reporter import ProgressReporter
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.reconcile.apply import reconcile
from clerk.reconcile.plan import make_plan
from tests.conftest import Databases, running
from tests.engine.helpers import Connection, Worker, add_site, start

STUCK, WITHOUT_COORDINATOR, FAILED = 105, 82, 2_695


def create_backlog(connection: Connection, stuck: int, without_coordinator: int, failed: int) -> None:
    """Create stuck sites without progress for three hours.

    `without_coordinator` of them have a complete phase and no coordinator; the others have `failed` uncounted failed
    jobs.
    """
    worker = Worker(connection)
    others = stuck - without_coordinator
    for number in range(without_coordinator):
        add_site(connection, f"complete{number}", documents=2)
        start(connection, f"complete{number}", phase=2)
        while job := worker.fetch("ocr"):
            worker.finish(job)
    for number in range(others):
        add_site(connection, f"stuck{number}", documents=failed // others + (number < failed % others))
        start(connection, f"stuck{number}", phase=2)
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute("delete from procrastinate_jobs where status = 'todo' and queue_name = 'coordinator'")
        connection.execute(
            "update procrastinate_jobs set status = 'failed' where status = 'todo' and queue_name = 'ocr'"
        )
        connection.execute("update sites set updated_at = now() - interval '3 hours'")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/bench legacy-backlog", description=__doc__)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Server(Path(folder) / "postgres")) as url,
        ProgressReporter(options.quiet) as progress,
    ):
        databases = Databases(url)
        with connect_to(databases.create()) as connection:
            Migrator(connection, default_folder()).up()
            create_backlog(connection, STUCK, WITHOUT_COORDINATOR, FAILED)
            connection.execute("analyze")
            started = time.monotonic()
            plan = make_plan(connection, None)
            planned = time.monotonic()
            done = reconcile(connection, None, progress=progress.callback("repairs")).done
            ended = time.monotonic()
            assert len(plan) == len(done) == WITHOUT_COORDINATOR + FAILED
            assert make_plan(connection, None, threshold=timedelta(0)) == []
        databases.drop_all()
    sys.stdout.write(
        f"{STUCK} stuck sites, {len(done)} repairs: the plan alone {planned - started:.2f} s,"
        f" plan and repairs {ended - planned:.2f} s\n"
    )


if __name__ == "__main__":
    main()
