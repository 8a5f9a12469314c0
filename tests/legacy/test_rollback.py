"""`clerk db down --to 0` after sites were migrated: the older system finds its rows as it left them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.legacy import migrate
from clerk.pipeline import engine
from tests.conftest import Url
from tests.db.legacy import ALEMBIC, BASELINES, Baseline
from tests.db.schema import facts, rows, tables
from tests.engine.helpers import Connection, finish_phase, one, worker
from tests.legacy.guide import PAGE
from tests.legacy.legacy_system import OldDisk, stuck_site


@pytest.fixture(params=BASELINES, ids=lambda baseline: baseline.name)
def baseline(request: pytest.FixtureRequest) -> Baseline:
    found: Baseline = request.param
    return found


@pytest.fixture
def url(baseline: Baseline, new_database: Callable[[], Url]) -> Url:
    return new_database()


@pytest.fixture
def older(baseline: Baseline, url: Url, old_disk: OldDisk) -> Iterator[psycopg.Connection]:
    """The older system's database, with a disk on which its stuck site has a bit of everything."""
    old_disk.text("springfield", "Council", "2020-01-01", "one", "two")
    old_disk.pdf("springfield", "Council", "2020-01-02")
    old_disk.marker("springfield", "Council", "2020-01-03")
    with connect_to(url) as connection:
        baseline.build(connection)
        yield connection


def contents(connection: psycopg.Connection) -> dict[str, list[dict[str, object]]]:
    return {table: rows(connection, table) for table in tables(connection)}


def test_every_value_comes_back(older: Connection, folder: SqlFolder, old_disk: OldDisk) -> None:
    schema, before = facts(older, folder), contents(older)
    Migrator(older, folder).up()
    (stuck,) = (one for one in migrate.migrate(older, old_disk.root, every_site=True) if one.run_id is not None)
    assert (stuck.subdomain, stuck.total) == ("springfield", 3)
    # Not stuck, and its row changes all the same: what waited in the Redis becomes a run, or an operator wants one.
    engine.start_run(older, "emptyville")
    engine.increment_failed(older, "springfield", "ocr", "a broken page", "PdfBroken")
    older.execute("update sites set last_deployed = 'now', extraction_status = 'failed', last_extracted = 'now'"
                  " where run_id is not null")  # fmt: skip
    changed = {row["subdomain"] for row in rows(older, "sites") if row["current_stage"] in ("ocr", "fetch")}
    assert changed >= {"springfield", "emptyville"}
    Migrator(older, folder).down(0)
    assert facts(older, folder) == schema
    assert contents(older) == before


@pytest.mark.parametrize("baseline", [ALEMBIC], ids=["alembic"])
def test_a_site_that_was_finished_here_keeps_what_is_so(
    older: Connection, url: Url, folder: SqlFolder, baseline: Baseline
) -> None:
    """Its archive is published: with its older word, `needs_ocr`, all would be done again. A later run that is cut off
    by going back ends with it."""
    Migrator(older, folder).up()
    with worker(url, "hand") as hand:
        for site in ("springfield", "emptyville"):
            older.execute(
                "insert into content_items (subdomain, kind, meeting, date) values (%s, 'minutes', 'Council', now())",
                [site],
            )
            engine.start_run(older, site)
            for _ in range(4):
                finish_phase(hand)
    engine.start_run(older, "emptyville")
    assert one(older, "select status from sites where subdomain = 'emptyville'") == "fetching"
    Migrator(older, folder).down(0)
    for site in ("springfield", "emptyville"):
        (row,) = (row for row in rows(older, "sites") if row["subdomain"] == site)
        assert (row["current_stage"], row["status"]) == ("completed", "deployed")
        assert row["last_deployed"], site


def test_to_any_other_version_the_runs_stay(connection: Connection, folder: SqlFolder) -> None:
    connection.execute("insert into legacy_schema values ('table', 'sites', '{}')")
    connection.execute("insert into sites (subdomain, status) values ('town', 'needs_ocr')")
    engine.start_run(connection, "town")
    assert one(connection, "select as_found ->> 'status' from legacy_sites") == "needs_ocr"
    Migrator(connection, folder).down(folder.newest - 1)
    assert one(connection, "select status from sites") == "fetching"


def test_a_database_of_clerks_own_remembers_nothing(connection: Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    engine.start_run(connection, "town")
    assert one(connection, "select count(*) from legacy_sites") == 0


def test_the_second_names_can_be_removed_as_the_guide_says(connection: Connection, old_disk: OldDisk) -> None:
    stuck_site(connection, "town")
    old_disk.whole_text("town", "Board of 'Ed'", "2010-01-01", "all of it")
    old_disk.whole_text("town", "Board", "2010-01-01", "all of it")
    old_disk.text("town", "Board", "2010-01-02", "a page of its own")
    old_disk.text("town", "Board", "2010-01-03", "a page with noughts", padded=True)
    old_disk.pdf("town", "Board of 'Ed'", "2010-01-01")

    def files() -> dict[Path, bytes]:
        there = (path for ending in ("txt", "pdf") for path in old_disk.root.rglob(f"*.{ending}"))
        return {path: path.read_bytes() for path in there if path.name != "second-names.txt"}

    before = files()
    list(migrate.migrate(connection, old_disk.root))
    assert len(files()) == len(before) + 4
    (command,) = re.findall(r"^    find .*?\\;$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    subprocess.run(["/bin/sh", "-c", command], env={**os.environ, "STORAGE_DIR": str(old_disk.root)}, check=True)
    assert files() == before
