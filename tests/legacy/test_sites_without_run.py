"""Reconciliation of a site that has counters but no run: texts on disk are counted, and the run continues."""

from __future__ import annotations

from datetime import timedelta

import pytest

from clerk import pipeline_state
from clerk.config import load
from clerk.reconcile.apply import Result, reconcile
from clerk.reconcile.file_checks import StorageScan
from tests.cli.conftest import Clerk
from tests.engine.helpers import Connection, broken_invariants, one, rows
from tests.legacy.legacy_system import LegacyDisk
from tests.legacy.test_migrate import work

pytestmark = pytest.mark.usefixtures("legacy_settings")

_COUNTERS = "select current_stage, ocr_total, ocr_completed, ocr_failed, coordinator_enqueued from sites"
_JOBS = "select queue_name, count(*) from procrastinate_jobs where status = 'todo' group by 1 order by 1"


def set_counters(connection: Connection, stage: str = "ocr", hours: int = 3) -> None:
    """As a script of legacy clerk does it, some hours ago."""
    connection.execute("insert into sites (subdomain, name) values ('town', 'Town')")
    pipeline_state.initialize_stage("town", stage, total_jobs=2)
    pipeline_state.increment_completed("town", stage)
    connection.execute("update sites set updated_at = now() - make_interval(hours => %s)", [hours])


def repair(connection: Connection, threshold: timedelta = timedelta(hours=2)) -> Result:
    result = reconcile(connection, StorageScan(load()), threshold=threshold)
    assert result.failed == []
    return result


@pytest.mark.parametrize("stage", ["ocr", "compilation", "extraction", "deploy"])
def test_texts_on_disk_are_counted_and_the_coordinator_is_deferred(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk, stage: str
) -> None:
    set_counters(connection, stage)
    legacy_disk.text("town", "Council", "2020-01-01", "The budget passed.", "Adjourned.")
    legacy_disk.whole_text("town", "Board", "2010-01-01", "An old text of one file.")
    assert one(connection, "select stuck from pipeline_overview")

    (done,) = repair(connection).done

    assert (done.kind, done.found.partition("; ")[2]) == ("no-run", "2 of 2 documents on disk have their texts")
    assert rows(connection, _COUNTERS) == [("ocr", 2, 2, 0, True)]
    assert rows(connection, _JOBS) == [("coordinator", 1)]
    assert rows(connection, "select reason, ended_at from pipeline_runs") == [("counters without a run", None)]
    assert broken_invariants(connection) == []
    assert repair(connection, timedelta(0)).done == []
    work(connection)
    assert rows(connection, "select current_stage, outcome from sites") == [("completed", "succeeded")]
    assert one(connection, "select count(*) from procrastinate_jobs where queue_name in ('fetch', 'ocr')") == 0
    assert broken_invariants(connection) == []


def test_documents_without_text_are_processed(connection: Connection, legacy_disk: LegacyDisk) -> None:
    set_counters(connection)
    legacy_disk.text("town", "Council", "2020-01-01", "The budget passed.")
    legacy_disk.pdf("town", "Zoning", "2020-01-01")
    legacy_disk.marker("town", "Lost", "2020-01-01")
    repair(connection)
    assert rows(connection, _COUNTERS) == [("ocr", 3, 1, 1, False)]
    assert rows(connection, _JOBS) == [("ocr", 1)]
    assert broken_invariants(connection) == []
    work(connection)
    assert rows(connection, "select current_stage, outcome from sites") == [("completed", "partial")]


@pytest.mark.parametrize("stage", ["fetch", "ocr"])
def test_without_files_the_run_begins_with_fetch(connection: Connection, stage: str) -> None:
    set_counters(connection, stage)
    (done,) = repair(connection).done
    assert done.action == "open a run that begins with fetch"
    assert rows(connection, _JOBS) == [("fetch", 1)]
    assert broken_invariants(connection) == []


def test_the_dry_run_and_the_threshold(connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk) -> None:
    set_counters(connection, hours=1)
    legacy_disk.text("town", "Council", "2020-01-01", "The budget passed.")
    files = sorted(legacy_disk.root.rglob("*"))
    assert "Nothing to repair." in clerk_command("reconcile-pipeline", "--dry-run").out, "a script may still count"
    planned = clerk_command("reconcile-pipeline", "--dry-run", "--threshold-hours", "0").out
    assert planned.splitlines()[0].startswith("town ocr: it is in stage ocr and has no run; 1 of 1 documents")
    assert sorted(legacy_disk.root.rglob("*")) == files
    assert one(connection, "select count(*) from pipeline_runs") == 0

    why = clerk_command("why", "town").out
    assert "it is in stage ocr and has no run" in why
    assert "when the site has made no progress for 2 hours" in why
    assert "clerk reconcile-pipeline --site town --threshold-hours 0" in why

    done = clerk_command("reconcile-pipeline", "--site", "town", "--threshold-hours", "0")
    assert (done.code, done.out.splitlines()[-1]) == (0, "1 repaired.")
    assert rows(connection, _COUNTERS) == [("ocr", 1, 1, 0, True)]


def test_a_site_whose_files_cannot_be_used_is_reported(connection: Connection, legacy_disk: LegacyDisk) -> None:
    set_counters(connection)
    legacy_disk.text("town", "Council", "2020-01-01", "The budget passed.")
    (legacy_disk.root / "town/pdfs").symlink_to("/nowhere/mounted")
    result = repair(connection)
    assert result.done == []
    (report,) = result.reports
    assert report.kind == "no-run"
    assert "is a dangling link" in report.found
    assert one(connection, "select count(*) from pipeline_runs") == 0


def test_after_the_legacy_clean_up(connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk) -> None:
    forced = [option for name in ("operators", "repairs", "backup") for option in ("--force", name)]
    cleaned = clerk_command("legacy", "cleanup", "--apply", *forced)
    assert cleaned.code == 0, cleaned
    set_counters(connection)
    legacy_disk.text("town", "Council", "2020-01-01", "The budget passed.")
    repair(connection)
    assert rows(connection, _COUNTERS) == [("ocr", 1, 1, 0, True)]
