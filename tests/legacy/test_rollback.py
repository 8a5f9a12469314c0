"""`clerk db down --to 0` after a migration restores the rows of legacy clerk."""

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
from tests.db.schema import rows, schema_lines, tables
from tests.engine.helpers import Connection, connect_worker, finish_phase, one
from tests.legacy.guide import PAGE
from tests.legacy.legacy_system import LegacyDisk, stuck_site


@pytest.fixture(params=BASELINES, ids=lambda baseline: baseline.name)
def baseline(request: pytest.FixtureRequest) -> Baseline:
    baseline: Baseline = request.param
    return baseline


@pytest.fixture
def url(baseline: Baseline, new_database: Callable[[], Url]) -> Url:
    return new_database()


@pytest.fixture
def legacy(baseline: Baseline, url: Url, legacy_disk: LegacyDisk) -> Iterator[psycopg.Connection]:
    """A legacy database, with a disk on which its stuck site has a document of each state."""
    legacy_disk.text("springfield", "Council", "2020-01-01", "one", "two")
    legacy_disk.pdf("springfield", "Council", "2020-01-02")
    legacy_disk.marker("springfield", "Council", "2020-01-03")
    with connect_to(url) as connection:
        baseline.build(connection)
        yield connection


def contents(connection: psycopg.Connection) -> dict[str, list[dict[str, object]]]:
    return {table: rows(connection, table) for table in tables(connection)}


def test_every_value_is_restored(legacy: Connection, folder: SqlFolder, legacy_disk: LegacyDisk) -> None:
    schema, before = schema_lines(legacy, folder), contents(legacy)
    Migrator(legacy, folder).up()
    (stuck,) = (site for site in migrate.migrate(legacy, legacy_disk.root, every_site=True) if site.run_id is not None)
    assert (stuck.subdomain, stuck.total) == ("springfield", 3)
    # This site is not stuck, but its row changes: a job in the Redis, or an operator, starts a run.
    engine.start_run(legacy, "emptyville")
    engine.increment_failed(legacy, "springfield", "ocr", "a broken page", "PdfBroken")
    legacy.execute("update sites set last_deployed = 'now', extraction_status = 'failed', last_extracted = 'now'"
                  " where run_id is not null")  # fmt: skip
    changed = {row["subdomain"] for row in rows(legacy, "sites") if row["current_stage"] in ("ocr", "fetch")}
    assert changed >= {"springfield", "emptyville"}
    Migrator(legacy, folder).down(0)
    assert schema_lines(legacy, folder) == schema
    assert contents(legacy) == before


@pytest.mark.parametrize("baseline", [ALEMBIC], ids=["alembic"])
def test_a_site_with_a_finished_run_keeps_its_values(
    legacy: Connection, url: Url, folder: SqlFolder, baseline: Baseline
) -> None:
    """Its archive is published; with its legacy status, `needs_ocr`, legacy clerk would repeat everything. A later
    run that is active during the migration ends as cancelled."""
    Migrator(legacy, folder).up()
    with connect_worker(url, "worker") as executor:
        for site in ("springfield", "emptyville"):
            legacy.execute(
                "insert into content_items (subdomain, kind, meeting, date) values (%s, 'minutes', 'Council', now())",
                [site],
            )
            engine.start_run(legacy, site)
            for _ in range(4):
                finish_phase(executor)
    engine.start_run(legacy, "emptyville")
    assert one(legacy, "select status from sites where subdomain = 'emptyville'") == "fetching"
    Migrator(legacy, folder).down(0)
    for site in ("springfield", "emptyville"):
        (row,) = (row for row in rows(legacy, "sites") if row["subdomain"] == site)
        assert (row["current_stage"], row["status"]) == ("completed", "deployed")
        assert row["last_deployed"], site


def test_migrating_down_to_another_version_keeps_the_runs(connection: Connection, folder: SqlFolder) -> None:
    connection.execute("insert into legacy_schema values ('table', 'sites', '{}')")
    connection.execute("insert into sites (subdomain, status) values ('town', 'needs_ocr')")
    engine.start_run(connection, "town")
    assert one(connection, "select as_found ->> 'status' from legacy_sites") == "needs_ocr"
    Migrator(connection, folder).down(folder.newest - 1)
    assert one(connection, "select status from sites") == "fetching"


def test_a_new_database_saves_no_legacy_values(connection: Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    engine.start_run(connection, "town")
    assert one(connection, "select count(*) from legacy_sites") == 0


def test_the_links_can_be_deleted_with_the_command_of_the_guide(
    connection: Connection, legacy_disk: LegacyDisk
) -> None:
    stuck_site(connection, "town")
    legacy_disk.whole_text("town", "Board of 'Ed'", "2010-01-01", "all of it")
    legacy_disk.whole_text("town", "Board", "2010-01-01", "all of it")
    legacy_disk.text("town", "Board", "2010-01-02", "one page")
    legacy_disk.text("town", "Board", "2010-01-03", "one page, leading zeros", padded=True)
    legacy_disk.pdf("town", "Board of 'Ed'", "2010-01-01")

    def files() -> dict[Path, bytes]:
        paths = (path for ending in ("txt", "pdf") for path in legacy_disk.root.rglob(f"*.{ending}"))
        return {path: path.read_bytes() for path in paths if path.name != "second-names.txt"}

    before = files()
    list(migrate.migrate(connection, legacy_disk.root))
    assert len(files()) == len(before) + 4
    (command,) = re.findall(r"^    find .*?\\;$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    subprocess.run(["/bin/sh", "-c", command], env={**os.environ, "STORAGE_DIR": str(legacy_disk.root)}, check=True)
    assert files() == before
