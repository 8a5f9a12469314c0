"""Which sites are scanned, in which order, and when files are not checked: missing storage, active runs."""

from __future__ import annotations

import json
import os
import threading
from datetime import timedelta

import pytest
from click.testing import CliRunner

from clerk.cli import cli
from clerk.config import load
from clerk.db.connection import connect_to
from clerk.documents.storage import SiteStorage, delete_folder, write
from clerk.pipeline import engine
from clerk.reconcile.apply import reconcile
from clerk.reconcile.file_checks import StorageScan, read_sites
from clerk.reconcile.plan import make_plan
from clerk.reconcile.repair import Repair
from tests.archive.helpers import add_site
from tests.reconcile.files.site_fixture import StoredSite
from tests.s3 import BOTH_IF_LONG

STORAGES = BOTH_IF_LONG


@pytest.mark.folder_only
@pytest.mark.parametrize("how", ["missing", "empty", "another"])
def test_a_missing_storage_is_reported_and_not_repaired(
    site: StoredSite, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.storage.root.rename(site.folder / "elsewhere")
    if how != "missing":
        site.storage.root.mkdir()
    if how == "another":
        (site.storage.root / "lost+found").mkdir()
        (site.storage.root / "_published").mkdir()
    before = site.one("select md5(string_agg(l::text, ',' order by l.id)) from content_item_pipeline_state l")
    assert site.plan() == ["storage-missing"]
    with caplog.at_level("WARNING"):
        for _ in range(2):
            result = site.reconcile()
            assert (result.done, result.failed) == ([], [])
            (repair,) = result.reports
            assert repair.kind == "storage-missing"
            assert "the storage is missing" in repair.found
            assert "nothing was changed" in repair.found
            assert repair.action.endswith("correct STORAGE_DIR")
    assert caplog.text.count("the storage is missing") == 1, "logged once, not at every reconciliation"
    assert site.one("select count(*) from reconcile_log") == (0,), "no repair failed"
    assert CliRunner().invoke(cli, ["reconcile-pipeline"]).exit_code == 3
    assert site.one("select md5(string_agg(l::text, ',' order by l.id)) from content_item_pipeline_state l") == before
    assert site.one("select count(*) from storage_scans") == (0,)


@pytest.mark.folder_only
def test_a_missing_publish_folder_is_reported_and_not_repaired(
    site: StoredSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another disk than the storage."""
    published = site.folder / "www" / "published"
    published.parent.mkdir()
    (site.storage.root / "_published").rename(published)
    monkeypatch.setenv("CLERK_PUBLISH_DIR", str(published))
    assert site.plan(full=True) == []
    published.rename(site.folder / "elsewhere")
    assert site.plan(full=True) == ["storage-missing"]
    site.storage.page_text(site.document("2024-01-02"), 1).unlink()
    assert site.plan() == ["storage-missing", "texts-lost", "storage-run"], "the storage itself is scanned"
    result = CliRunner().invoke(cli, ["verify"])
    assert result.exit_code == 3
    assert "the folder of published archives is missing" in result.stdout


def test_a_database_without_documents_needs_no_storage(site: StoredSite) -> None:
    delete_folder(site.storage.root)
    site.connection.execute("delete from sites")
    assert site.plan() == []


@pytest.mark.folder_only
def test_a_missing_folder_of_one_site_is_repaired(site: StoredSite) -> None:
    """Another site's folder exists, so the storage is mounted."""
    add_site(site.connection, "shelbyville")
    site.connection.execute(
        "insert into content_items (subdomain, kind, meeting, date, sha256)"
        " values ('shelbyville', 'minutes', 'Council', '2024-01-02', repeat('a', 64))"
    )
    site.connection.execute("update sites set updated_at = now() where subdomain = 'shelbyville'")
    (site.storage.root / "shelbyville").mkdir()
    delete_folder(site.storage.folder)
    assert site.plan().count("texts-lost") == 3
    site.repair()
    assert site.all_processed


@pytest.mark.folder_only
def test_unreadable_files_do_not_count_as_missing(site: StoredSite) -> None:
    """A folder in place of a file causes an error other than `not found`, also for root."""
    path = site.storage.manifest(site.document("2024-01-02"))
    path.unlink()
    path.mkdir()
    ((repair, _),) = site.reconcile().failed
    assert repair.kind == "storage-unreadable"
    assert site.all_processed


def test_a_folder_of_an_unknown_site_is_reported_and_kept(site: StoredSite) -> None:
    unknown = SiteStorage(site.storage.root, "ogdenville").folder / "pdfs" / "Council" / "2024-01-02.pdf"
    write(unknown, b"%PDF-1.4")
    assert site.plan() == ["unknown-site"]
    assert site.reconcile().done == []
    assert unknown.exists()
    result = CliRunner().invoke(cli, ["reconcile-pipeline", "--dry-run"])
    assert result.stdout.startswith("NOTE  ogdenville: ")
    assert result.stdout.endswith("\nNothing to repair.\n"), "a report is not counted as a repair"


def test_files_that_are_not_from_clerk_are_ignored(site: StoredSite) -> None:
    folder = site.storage.folder / "pdfs" / "TownCouncil"
    for name in ("notes.txt", "2024-13-45.pdf", "2024-05-01_r1.pdf", "2024-05-02.pdf.damaged", "2024-05-03.pdf"):
        (folder / name).write_bytes(b"not a PDF")
    assert site.plan(full=True) == []


def test_a_site_with_a_progressing_run_is_not_scanned(site: StoredSite) -> None:
    site.start(phase=2)
    scan = StorageScan(load())
    assert read_sites(site.connection, None, timedelta(hours=2), None) == []
    assert [state.subdomain for state in read_sites(site.connection, None, timedelta(0), None)] == ["springfield"]
    site.storage.page_text(site.document("2024-01-02"), 1).unlink()
    assert make_plan(site.connection, scan) == []


def test_sites_whose_run_ended_are_scanned_first_then_the_least_recently_scanned(site: StoredSite) -> None:
    for number, days in enumerate((3, 1, 2)):
        add_site(site.connection, f"town{number}")
        site.connection.execute(
            "insert into storage_scans (subdomain, attempted_at) values (%s, now() - make_interval(days => %s))",
            [f"town{number}", days],
        )
    site.connection.execute("update sites set updated_at = now() - interval '9 days' where subdomain like 'town%'")
    add_site(site.connection, "never")
    order = [state.subdomain for state in read_sites(site.connection, None, timedelta(hours=2), None)]
    assert set(order[:2]) == {"never", "springfield"}
    assert order[2:] == ["town0", "town2", "town1"]
    assert len(read_sites(site.connection, None, timedelta(hours=2), 3)) == 3


@pytest.mark.folder_only
def test_a_site_with_a_lasting_problem_does_not_delay_the_scan_of_others(site: StoredSite) -> None:
    path = site.storage.manifest(site.document("2024-01-02"))
    path.unlink()
    path.mkdir()
    add_site(site.connection, "shelbyville")
    (site.storage.root / "shelbyville").mkdir()
    site.connection.execute("update sites set updated_at = now() - interval '9 days'")
    site.connection.execute("update pipeline_runs set ended_at = now() - interval '9 days'")
    for expected in ("shelbyville", "springfield", "shelbyville"):
        (last,) = site.one("select subdomain from sites order by subdomain = %s limit 1", expected)
        scan = site.scan()
        scan.find(site.connection, last, timedelta(0), dry_run=False)
        (first, *_) = read_sites(site.connection, None, timedelta(0), None)
        assert first.subdomain == expected
    assert site.one("select clean_at from storage_scans where subdomain = 'springfield'") == (None,)


def test_the_recorded_time_is_before_the_scan(site: StoredSite) -> None:
    scan = site.scan()
    assert scan.find(site.connection, None, timedelta(0), dry_run=False) == []
    (after,) = site.one("select clock_timestamp()")
    scan.record(site.connection)
    assert site.one("select clean_at < %s and attempted_at < %s from storage_scans", after, after) == (True,)


def test_a_dry_run_records_no_scan(site: StoredSite) -> None:
    assert site.plan() == []
    assert site.one("select count(*) from storage_scans") == (0,)


def test_the_database_is_repaired_while_a_file_scan_hangs(site: StoredSite, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.rewind(site.connection, "springfield", "ocr")
    entered, release = threading.Event(), threading.Event()

    def hang(*_: object) -> list[Repair]:
        entered.set()
        release.wait(60)
        return []

    monkeypatch.setattr(StorageScan, "find", hang)
    with connect_to(os.environ["DATABASE_URL"]) as other:
        first = threading.Thread(target=reconcile, args=[other, site.scan(), None, timedelta(0)])
        first.start()
        try:
            assert entered.wait(60)
            _lose_jobs(site)
            second = site.reconcile()
        finally:
            release.set()
            first.join()
    assert [repair.kind for repair in second.done] == ["unit"] * 3
    assert (second.busy, second.files_busy) == (False, True)
    assert not site.reconcile().files_busy, "the lock is released"


def _lose_jobs(site: StoredSite) -> None:
    with site.connection.transaction():
        site.connection.execute("set local session_replication_role = replica")
        site.connection.execute("delete from procrastinate_jobs where status = 'todo'")


def test_database_and_files_are_repaired_in_one_reconciliation_as_planned(site: StoredSite) -> None:
    engine.rewind(site.connection, "springfield", "ocr")
    _lose_jobs(site)
    site.connection.execute("update sites set updated_at = now() - interval '3 hours'")
    planned = [repair.kind for repair in make_plan(site.connection, site.scan())]
    assert planned == [*["unit"] * 3, *["texts-complete"] * 3]
    assert [repair.kind for repair in reconcile(site.connection, site.scan()).done] == planned
    assert site.all_processed


def test_complete_texts_do_not_end_a_run_that_forces_ocr(site: StoredSite) -> None:
    run = engine.rewind(site.connection, "springfield", "ocr", force_ocr=True)
    site.connection.execute("update sites set updated_at = now() - interval '3 hours'")
    assert [repair.kind for repair in make_plan(site.connection, site.scan())] == []
    site.connection.execute("update pipeline_runs set force_ocr = false where run_id = %s", [run])
    assert [repair.kind for repair in make_plan(site.connection, site.scan())] == ["texts-complete"] * 3


def test_options_of_reconcile_pipeline(site: StoredSite) -> None:
    site.storage.page_text(site.document("2024-01-02"), 1).unlink()
    run = CliRunner().invoke
    result = run(cli, ["reconcile-pipeline", "--dry-run", "--storage", "none"])
    assert (result.exit_code, result.stdout) == (0, "Nothing to repair.\n")
    result = run(cli, ["reconcile-pipeline", "--dry-run", "--json"])
    kinds = [repair["kind"] for repair in json.loads(result.stdout)["repairs"]]
    assert kinds == ["texts-lost", "storage-run"]
    result = run(cli, ["reconcile-pipeline", "--storage", "all", "--site", "springfield"])
    assert result.exit_code == 0, result.output
    assert "the text file 1.txt is missing; process it again" in result.stdout
    site.work()
    assert run(cli, ["reconcile-pipeline", "--storage", "all"]).stdout == "Nothing to repair.\n"
