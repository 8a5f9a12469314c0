"""Runs the commands of docs/legacy.md against a generated production state, with a real Redis and real workers."""

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
from tests.legacy.legacy_redis import LegacyRq
from tests.legacy.legacy_system import Connection, LegacyDisk

SITES, STUCK, COORDINATORS, FAILED = 400, 105, 82, 2695


def make_production(connection: Connection, disk: LegacyDisk, rq: LegacyRq) -> None:
    """Stuck sites, and others that were completed an hour ago. Every seventh stuck site has an unprocessed PDF, every
    fifteenth a document without files."""
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
def test_the_guide(
    new_database: Callable[[], Url], legacy_disk: LegacyDisk, legacy_rq: LegacyRq, tmp_path: Path
) -> None:
    url = new_database()
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "STORAGE_DIR": str(legacy_disk.root),
        "PATH": f"{Path(sys.executable).parent}:{bundled(18)}:{os.environ['PATH']}",
    }
    outputs = {}
    with connect_to(url) as connection:
        make_production(connection, legacy_disk, legacy_rq)
        texts = {path: path.read_bytes() for path in legacy_disk.root.rglob("*.txt")}
        for step in guide.steps():
            if step.language == "sql":
                assert one(connection, step.line.encode()) == 0, step.line
                continue
            ran = subprocess.run(
                ["/bin/sh", "-c", step.line], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, (step.line, ran.stdout[-2000:], ran.stderr[-2000:])
            outputs[step.line] = ran.stdout
            if step.line == "clerk worker --until-idle":
                _check_migrated(connection)

        assert f"{SITES} sites, {STUCK} stuck" in outputs["clerk legacy inspect"]
        assert "by status: 91 in ocr, 14 in extraction" in outputs["clerk legacy inspect"]
        migrated = outputs["clerk migrate-stuck-sites --every-site"]
        assert "anytown-001: 2/2 completed, 0 failed\n" in migrated
        assert "anytown-000: 2/4 completed, 1 failed, 1 pending\n" in migrated
        assert (
            f"{STUCK} stuck sites migrated, {SITES - STUCK} others imported: 505/527 completed, 7 failed, 15"
            in migrated
        )
        lines = "".join(outputs.values()).splitlines()
        assert [line for line in guide.outputs() if line not in lines] == []
        redis = outputs["clerk legacy redis --file rq-removed.jsonl"]
        assert f"{COORDINATORS} deferred coordinators cancelled\n{FAILED} failed OCR jobs deleted\n" in redis
        assert "4 waiting and scheduled jobs turned into runs of 4 sites" in redis
        assert not legacy_rq.queue("ocr").failed_job_registry.get_job_ids(cleanup=False)
        assert {path: path.read_bytes() for path in texts} == texts, "no text was written"
        assert rows(connection, "select count(*) from site_progress") == [(SITES,)], "restored by --undo"


def _check_migrated(connection: Connection) -> None:
    assert rows(connection, "select current_stage, count(*) from sites group by 1") == [("completed", SITES)]
    assert broken_invariants(connection) == []
    ocr_jobs = rows(connection, "select count(*) from procrastinate_jobs where queue_name = 'ocr'")
    assert ocr_jobs == [(15,)], "only documents without text"
    outcomes = rows(
        connection,
        "select s.outcome, s.status, count(*) from sites s join pipeline_runs r on r.run_id = s.run_id"
        " where r.reason = 'migrated from legacy clerk' group by 1, 2 order by 1",
    )
    assert outcomes == [("partial", "deployed", 7), ("succeeded", "deployed", 98)]
