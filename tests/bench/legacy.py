"""Duration of the import from legacy clerk: sites and documents per second, with fsync.

Every site is stuck, with texts only: a manifest is written and synced for each document, and each text is read once.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from clerk.cli.progress_reporter import ProgressReporter
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.legacy import migrate
from clerk.legacy.inspect import inspect
from tests.conftest import running
from tests.legacy.legacy_system import LegacyDisk, stuck_site

PAGE = "The council met at seven. Member Ortega moved to approve the budget. The motion carried.\n" * 20


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/bench legacy", description=__doc__)
    parser.add_argument("--sites", type=int, default=400, help="number of sites (default: 400)")
    parser.add_argument("--documents", type=int, default=50, help="per site (default: 50)")
    parser.add_argument("--pages", type=int, default=5, help="per document (default: 5)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clerk-bench-") as folder, ProgressReporter(options.quiet) as progress:
        disk = LegacyDisk(Path(folder) / "storage")
        names = [f"town-{number:04}" for number in range(options.sites)]
        for created, name in enumerate(names):
            progress.update("sites created", created, options.sites)
            for number in range(options.documents):
                day = f"{1990 + number // 12}-{number % 12 + 1:02}-01"
                disk.text(name, "CityCouncil", day, *[PAGE] * options.pages)
        with running(Server(Path(folder) / "postgres")) as url, connect_to(url) as connection:
            Migrator(connection, default_folder()).up()
            for name in names:
                stuck_site(connection, name)
            documents, texts = options.sites * options.documents, options.sites * options.documents * options.pages
            print(f"{options.sites} sites, {documents} documents, {texts} text files")  # noqa: T201
            started = time.perf_counter()
            inspect(connection, disk.root, None)
            _report("inspect", started, options.sites, documents, texts)
            started = time.perf_counter()
            migration = migrate.migrate(connection, disk.root, progress=progress.callback("sites imported"))
            done = sum(migrated.documents["processed"] for migrated in migration)
            assert done == documents
            _report("migrate", started, options.sites, documents, texts)


def _report(what: str, started: float, sites: int, documents: int, texts: int) -> None:
    seconds = time.perf_counter() - started
    print(  # noqa: T201
        f"{what}  {seconds:7.1f} s  {sites / seconds:7.1f} sites/s  {documents / seconds:7.0f} documents/s"
        f"  {texts / seconds:7.0f} texts/s"
    )


if __name__ == "__main__":
    main()
