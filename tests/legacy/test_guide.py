"""The guide, walked through on a made-up production: its own commands, a real Redis, real workers, to the end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clerk.db.connection import connect_to
from clerk.db.embedded.server import bundled
from tests.conftest import Url
from tests.db.legacy import ALEMBIC_EMPTY
from tests.engine.helpers import broken_invariants, one, rows
from tests.legacy import guide
from tests.legacy.legacy_redis import OldRq
from tests.legacy.legacy_system import Connection, OldDisk

SITES, STUCK, COORDINATORS, FAILED = 400, 105, 82, 2695


def a_production(connection: Connection, disk: OldDisk, rq: OldRq) -> None:
    """All but the stuck are done, an hour ago; of the stuck every seventh has a PDF left to read, every fifteenth
    a document of which nothing is left."""
    ALEMBIC_EMPTY.build(connection)
    for number in range(SITES):
        site = f"anytown-{number:03}"
        stuck = number < STUCK
        status = ("needs_ocr" if number < 91 else "needs_extraction") if stuck else "deployed"
        connection.execute(
            "insert into sites (subdomain, name, status, last_updated, current_stage, updated_at, ocr_total)"
            " values (%s, %s, %s, '', %s, now() - %s::interval, 12)",
            [site, site, status, "ocr" if stuck else "completed", "30 days" if stuck else "1 hour"],
        )
        connection.execute(
            "insert into site_progress values (%s, %s, 12, 11, now() - interval '31 days', now() - interval '30 days')",
            [site, "ocr" if stuck else "completed"],
        )
        disk.whole_text(site, "CityCouncil", "2010-01-05", f"The council of {site} met.")
        if stuck:
            disk.text(site, "CityCouncil", "2020-01-07", "The budget passed.", "Adjourned.")
            if number % 7 == 0:
                disk.pdf(site, "CityCouncil", "2020-02-04")
            if number % 15 == 0:
                disk.marker(site, "CityCouncil", "2020-03-03")
    failed = [
        rq.failed("ocr", "ocr_page_job", subdomain=f"anytown-{number % STUCK:03}", run_id="r", pdf_path=f"{number}.pdf")
        for number in range(FAILED)
    ]
    for number in range(COORDINATORS):
        site = f"anytown-{number:03}"
        rq.deferred("compilation", "ocr_complete_coordinator", failed[number], subdomain=site, run_id="r")
    for number in range(STUCK, STUCK + 3):
        rq.waiting("fetch", "fetch_site_job", subdomain=f"anytown-{number:03}", run_id="r")
    rq.scheduled("fetch", "fetch_site_job", subdomain=f"anytown-{STUCK + 3:03}", run_id="r")


@pytest.mark.timeout(600)
def test_the_guide_from_the_first_command_to_the_last(
    new_database: Callable[[], Url], old_disk: OldDisk, old_rq: OldRq, tmp_path: Path
) -> None:
    url = new_database()
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "STORAGE_DIR": str(old_disk.root),
        "PATH": f"{Path(sys.executable).parent}:{bundled(18)}:{os.environ['PATH']}",
    }
    said = {}
    with connect_to(url) as connection:
        a_production(connection, old_disk, old_rq)
        texts = {path: path.read_bytes() for path in old_disk.root.rglob("*.txt")}
        for step in guide.steps():
            if step.language == "sql":
                assert one(connection, step.line.encode()) == 0, step.line
                continue
            ran = subprocess.run(
                ["/bin/sh", "-c", step.line], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, (step.line, ran.stdout[-2000:], ran.stderr[-2000:])
            said[step.line] = ran.stdout
            if step.line == "clerk worker --burst":
                _everything_moved(connection)

        assert f"{SITES} sites, {STUCK} stuck" in said["clerk legacy inspect"]
        assert "by status: 91 in ocr, 14 in extraction" in said["clerk legacy inspect"]
        migrated = said["clerk migrate-stuck-sites --every-site"]
        assert "anytown-001: 2/2 completed, 0 failed\n" in migrated
        assert "anytown-000: 2/4 completed, 1 failed, 1 to read\n" in migrated
        assert (
            f"{STUCK} stuck sites migrated, {SITES - STUCK} others taken over: 505/527 completed, 7 failed, 15"
            in migrated
        )
        outputs = "".join(said.values()).splitlines()
        assert [line for line in guide.promised() if line not in outputs] == []
        redis = said["clerk legacy redis --file rq-removed.jsonl"]
        assert f"{COORDINATORS} deferred coordinators cancelled\n{FAILED} failed OCR jobs deleted\n" in redis
        assert "4 waiting and scheduled jobs turned into runs of 4 sites" in redis
        assert not old_rq.queue("ocr").failed_job_registry.get_job_ids(cleanup=False)
        assert {path: path.read_bytes() for path in texts} == texts, "no text was written"
        assert rows(connection, "select count(*) from site_progress") == [(SITES,)], "given back by --undo"


def _everything_moved(connection: Connection) -> None:
    assert rows(connection, "select current_stage, count(*) from sites group by 1") == [("completed", SITES)]
    assert broken_invariants(connection) == []
    read = rows(connection, "select count(*) from procrastinate_jobs where queue_name = 'ocr'")
    assert read == [(15,)], "only what had no text"
    ends = rows(
        connection,
        "select s.outcome, s.status, count(*) from sites s join pipeline_runs r on r.run_id = s.run_id"
        " where r.reason = 'migrated from the older system' group by 1, 2 order by 1",
    )
    assert ends == [("partial", "deployed", 7), ("succeeded", "deployed", 98)]
