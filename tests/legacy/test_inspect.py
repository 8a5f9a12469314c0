"""`clerk legacy inspect`: every form of the database, the disk, the Redis, and where they disagree."""

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
from tests.legacy.legacy_redis import OldRq
from tests.legacy.legacy_system import OldDisk, as_nobody, stuck_site

FORMS = {"alembic": ALEMBIC, "alembic, early": EARLY_ALEMBIC, "create_all": CREATE_ALL, "raw script": RAW_SCRIPT}


@pytest.mark.parametrize(("form", "baseline"), FORMS.items(), ids=FORMS)
def test_the_form_of_the_database_before_and_after_it_was_adopted(
    form: str,
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
        said = []
        for _ in range(2):
            outcome = clerk_command("legacy", "inspect", "--json")
            assert outcome.code == 0, outcome
            said.append(json.loads(outcome.out))
            Migrator(connection, folder).up()
    assert said[0] == said[1]
    database = said[0]["database"]
    assert (database["form"], database["sites"], database["job_tracking"]) == (form, 4, 1)
    assert database["stuck_by"]["site_progress"] == {"ocr": 1}
    assert database["stuck_by"]["status"] == {"ocr": 1}
    assert "o'brien: a name that cannot be a folder here" in said[0]["disagreements"]


def test_a_new_database_has_nothing_older(clerk_command: Clerk, settled: None) -> None:
    said = json.loads(clerk_command("legacy", "inspect", "--json").out)
    assert (said["database"]["form"], said["database"]["stuck"], said["disagreements"]) == ("none", 0, [])


def test_a_table_of_the_same_name_that_is_somebody_elses(
    new_database: Callable[[], Url], clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    monkeypatch.setenv("DATABASE_URL", url)
    with connect_to(url) as connection:
        connection.execute("create table sites (id integer primary key, status text)")
    outcome = clerk_command("legacy", "inspect")
    assert outcome.code == 0, outcome
    assert "no table of the older system; 0 sites, 0 stuck" in outcome.out


def test_where_they_disagree(
    connection: Connection, old_disk: OldDisk, old_rq: OldRq, clerk_command: Clerk, settled: None
) -> None:
    stuck_site(connection, "agrees")
    old_disk.text("agrees", "Council", "2020-01-01", "one")
    stuck_site(connection, "differs", "ocr", "deployed")
    old_disk.pdf("differs", "Council", "2020-01-01")
    old_disk.text("differs", "Council", "undated", "one")
    stuck_site(connection, "gone", "completed", "needs_deploy")
    old_disk.marker("stray town", "Council", "2020-01-01")
    connection.execute("insert into site_progress values ('nowhere', 'ocr', 0, 0, null, null)")
    failed = old_rq.failed("ocr", "ocr_page_job", subdomain="agrees")
    old_rq.deferred("compilation", "ocr_complete_coordinator", failed, subdomain="agrees")

    outcome = clerk_command("legacy", "inspect")
    assert outcome.code == 0, outcome
    for line in (
        "3 sites, 3 stuck",
        "by site_progress: 2 in ocr",
        "by status: 1 in ocr, 1 in deploy",
        "3 sites, 3 documents (1 with nothing, 1 with pdf, 1 with text)",
        "compilation: 1 deferred",
        "ocr: 1 failed",
        "nowhere: in site_progress, and not in sites",
        "differs: site_progress says ocr, status says deployed",
        "gone: status says deploy, site_progress says completed",
        "gone: in the table, and not on disk",
        "stray town: on disk, and not in the table",
        "undated is not named after a date",
    ):
        assert line in outcome.out
    assert "agrees: " not in outcome.out
    assert json.loads(clerk_command("legacy", "inspect", "--json").out)["redis"]["queues"]["ocr"]["failed"] == 1


@pytest.mark.usefixtures("settled")
def test_a_redis_that_cannot_be_looked_at_hides_neither_database_nor_disk(
    connection: Connection,
    old_disk: OldDisk,
    old_rq: OldRq,
    clerk_command: Clerk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck_site(connection, "town")
    old_disk.text("town", "Council", "2020-01-01", "one")

    def looks(problem: str) -> None:
        outcome = clerk_command("legacy", "inspect")
        assert outcome.code == 3, outcome
        for line in ("1 sites, 1 stuck", "1 sites, 1 documents (1 with text)", f"redis     not looked at: {problem}"):
            assert line in outcome.out
        assert problem in json.loads(clerk_command("legacy", "inspect", "--json").out)["redis"]["problem"]

    looks("the Redis holds no queue of RQ")
    old_rq.connection.set("rq:queues", "not a set")
    looks("the Redis holds something else under RQ's names")
    monkeypatch.setenv("REDIS_URL", "redis://:s3cret@localhost:1/0")
    looks("the Redis at redis://:***@localhost:1/0 cannot be used")


def test_a_disk_that_cannot_be_read_is_a_finding(
    connection: Connection, for_all: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck_site(connection, "town")
    closed = for_all / "closed"
    closed.mkdir(mode=0)
    for root, why in ((for_all / "nowhere", "No such file or directory"), (closed, "Permission denied")):
        with as_nobody():
            found = inspect(connection, root, None)
        assert found.disagreements[0] == f"{root} cannot be read ({why})"
        assert (found.database["stuck"], found.disk.sites) == (1, 0)
    closed.rmdir()
    OldDisk(for_all).text("town", "Council", "2020-01-01", "one")
    OldDisk(for_all).pdf("town", "Council", "2020-01-01")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = inspect(connection, for_all, None)
    assert found.disagreements == [
        "pdfinfo is not installed; on Debian: apt install poppler-utils; pages of PDFs were not counted"
    ]
    assert found.disk.holding == {"text": 1}


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_of_any_bytes_are_printed_on_any_terminal(
    connection: Connection, old_disk: OldDisk, encoding: str
) -> None:
    stuck_site(connection, "zürich")
    old_disk.text(os.fsdecode(b"stra\xdfe"), os.fsdecode(b"R\xe4te"), "undated", "one")
    (old_disk.root / "town").symlink_to("unmounted")
    for more in ([], ["--json"]):
        ran = subprocess.run(
            [sys.executable, "-m", "clerk", "legacy", "inspect", *more],
            env={**os.environ, "PYTHONIOENCODING": encoding},
            capture_output=True,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, b"")
        said = ran.stdout.decode()
        if more:
            said = "\n".join(json.loads(said)["disagreements"])
        elif encoding == "ascii":
            said = said.replace("\\xfc", "ü")
        assert "zürich: a name that cannot be a folder here" in said
        assert "stra\\xdfe: on disk, and not in the table" in said
        assert "R\\xe4te/undated is not named after a date" in said
        assert "town is a link to something that is not there" in said
