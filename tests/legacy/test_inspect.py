"""`clerk legacy inspect`: every form of the database, the disk, the Redis, and where they disagree."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from clerk.pg.connection import connect_to
from clerk.pg.migrate import Migrator
from clerk.pg.sqlfiles import SqlFolder
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.engine.driving import Connection
from tests.legacy.old_redis import OldRq
from tests.legacy.old_system import OldDisk, stuck_site
from tests.pg.legacy import ALEMBIC, CREATE_ALL, EARLY_ALEMBIC, RAW_SCRIPT, Baseline

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
