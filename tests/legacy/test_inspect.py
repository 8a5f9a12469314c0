"""`clerk legacy inspect`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clerk.db.connection import connect_to
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.legacy.inspect import inspect
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.db.legacy import ALEMBIC, CREATE_ALL, EARLY_ALEMBIC, RAW_SCRIPT, Baseline
from tests.engine.helpers import Connection
from tests.legacy.legacy_redis import LegacyRq
from tests.legacy.legacy_system import LegacyDisk, as_unprivileged_user, stuck_site

VARIANTS = {"alembic": ALEMBIC, "alembic, early": EARLY_ALEMBIC, "create_all": CREATE_ALL, "raw script": RAW_SCRIPT}


@pytest.mark.parametrize(("variant", "baseline"), VARIANTS.items(), ids=VARIANTS)
def test_the_variant_of_the_database_before_and_after_migration(
    variant: str,
    baseline: Baseline,
    new_database: Callable[[], Url],
    folder: SqlFolder,
    clerk_command: Clerk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = new_database()
    monkeypatch.setenv("DATABASE_URL", url)
    with connect_to(url) as connection:
        baseline.build(connection)
        reports = []
        for _ in range(2):
            outcome = clerk_command("legacy", "inspect", "--json")
            assert outcome.code == 0, outcome
            reports.append(json.loads(outcome.out))
            Migrator(connection, folder).up()
    assert reports[0] == reports[1]
    database = reports[0]["database"]
    assert (database["variant"], database["sites"], database["job_tracking"]) == (variant, 4, 1)
    assert database["stuck_by"]["site_progress"] == {"ocr": 1}
    assert database["stuck_by"]["status"] == {"ocr": 1}
    assert "o'brien: its name cannot be a folder name" in reports[0]["disagreements"]


def test_a_new_database_has_no_legacy_tables(clerk_command: Clerk, legacy_settings: None) -> None:
    report = json.loads(clerk_command("legacy", "inspect", "--json").out)
    assert (report["database"]["variant"], report["database"]["stuck"], report["disagreements"]) == ("none", 0, [])


def test_a_sites_table_of_another_program(
    new_database: Callable[[], Url], clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    monkeypatch.setenv("DATABASE_URL", url)
    with connect_to(url) as connection:
        connection.execute("create table sites (id integer primary key, status text)")
    outcome = clerk_command("legacy", "inspect")
    assert outcome.code == 0, outcome
    assert "no table of legacy clerk; 0 sites, 0 stuck" in outcome.out


def test_disagreements(
    connection: Connection, legacy_disk: LegacyDisk, legacy_rq: LegacyRq, clerk_command: Clerk, legacy_settings: None
) -> None:
    stuck_site(connection, "agrees")
    legacy_disk.text("agrees", "Council", "2020-01-01", "one")
    stuck_site(connection, "differs", "ocr", "deployed")
    legacy_disk.pdf("differs", "Council", "2020-01-01")
    legacy_disk.text("differs", "Council", "undated", "one")
    stuck_site(connection, "missing", "completed", "needs_deploy")
    legacy_disk.marker("stray town", "Council", "2020-01-01")
    connection.execute("insert into site_progress values ('nowhere', 'ocr', 0, 0, null, null)")
    failed = legacy_rq.failed("ocr", "ocr_page_job", subdomain="agrees")
    legacy_rq.deferred("compilation", "ocr_complete_coordinator", failed, subdomain="agrees")

    outcome = clerk_command("legacy", "inspect")
    assert outcome.code == 0, outcome
    for line in (
        "3 sites, 3 stuck",
        "by site_progress: 2 in ocr",
        "by status: 1 in ocr, 1 in deploy",
        "3 sites, 3 documents (1 with nothing, 1 with pdf, 1 with text)",
        "compilation: 1 deferred",
        "ocr: 1 failed",
        "nowhere: in site_progress, but not in sites",
        "differs: site_progress is ocr, status is deployed",
        "missing: status is deploy, site_progress is completed",
        "missing: in the table, but not on disk",
        "stray town: on disk, but not in the table",
        "undated is not named after a date",
    ):
        assert line in outcome.out
    assert "agrees: " not in outcome.out
    assert json.loads(clerk_command("legacy", "inspect", "--json").out)["redis"]["queues"]["ocr"]["failed"] == 1


@pytest.mark.usefixtures("legacy_settings")
def test_an_unreadable_redis_is_reported_beside_database_and_disk(
    connection: Connection,
    legacy_disk: LegacyDisk,
    legacy_rq: LegacyRq,
    clerk_command: Clerk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck_site(connection, "town")
    legacy_disk.text("town", "Council", "2020-01-01", "one")

    def check(problem: str) -> None:
        outcome = clerk_command("legacy", "inspect")
        assert outcome.code == 3, outcome
        for line in ("1 sites, 1 stuck", "1 site, 1 document (1 with text)", f"redis     not read: {problem}"):
            assert line in outcome.out
        assert problem in json.loads(clerk_command("legacy", "inspect", "--json").out)["redis"]["problem"]

    check("the Redis has no RQ queue")
    legacy_rq.connection.set("rq:queues", "not a set")
    check("the Redis has other data under the keys of RQ")
    monkeypatch.setenv("REDIS_URL", "redis://:s3cret@localhost:1/0")
    check("the Redis at redis://:***@localhost:1/0 cannot be used")


def test_an_unreadable_disk_is_reported(
    connection: Connection, public_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck_site(connection, "town")
    unreadable = public_folder / "unreadable"
    unreadable.mkdir(mode=0)
    for root, why in ((public_folder / "nowhere", "No such file or directory"), (unreadable, "Permission denied")):
        with as_unprivileged_user():
            inspection = inspect(connection, root, None)
        assert inspection.disagreements[0] == f"{root} cannot be read ({why})"
        assert (inspection.database["stuck"], inspection.disk.sites) == (1, 0)
    unreadable.rmdir()
    LegacyDisk(public_folder).text("town", "Council", "2020-01-01", "one")
    LegacyDisk(public_folder).pdf("town", "Council", "2020-01-01")
    monkeypatch.setenv("PATH", str(tmp_path))
    inspection = inspect(connection, public_folder, None)
    assert inspection.disagreements == [
        "pdfinfo is not installed; on Debian: apt install poppler-utils; pages of PDFs were not counted"
    ]
    assert inspection.disk.states == {"text": 1}


@pytest.mark.usefixtures("legacy_settings")
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_undecodable_names_are_printed_in_any_encoding(
    connection: Connection, legacy_disk: LegacyDisk, encoding: str
) -> None:
    stuck_site(connection, "zürich")
    legacy_disk.text(os.fsdecode(b"stra\xdfe"), os.fsdecode(b"R\xe4te"), "undated", "one")
    (legacy_disk.root / "town").symlink_to("unmounted")
    for options in ([], ["--json"]):
        ran = subprocess.run(
            [sys.executable, "-m", "clerk", "legacy", "inspect", *options],
            env={**os.environ, "PYTHONIOENCODING": encoding},
            capture_output=True,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, b"")
        output = ran.stdout.decode()
        if options:
            output = "\n".join(json.loads(output)["disagreements"])
        elif encoding == "ascii":
            output = output.replace("\\xfc", "ü")
        assert "zürich: its name cannot be a folder name" in output
        assert "stra\\xdfe: on disk, but not in the table" in output
        assert "R\\xe4te/undated is not named after a date" in output
        assert "town is a dangling link" in output
