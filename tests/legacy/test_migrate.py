"""`clerk migrate-stuck-sites`: files on disk become a run that continues, without repeating OCR."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from clerk.app import create_app
from clerk.config import load
from clerk.documents import manifest, repository
from clerk.documents.storage import SiteStorage
from clerk.legacy import migrate, tables
from clerk.pipeline import engine
from clerk.plugins import manager
from clerk.reconcile.apply import reconcile
from clerk.reconcile.file_checks import StorageScan
from tests.cli.conftest import Clerk
from tests.engine.helpers import Connection, broken_invariants, one, rows
from tests.legacy.legacy_system import PROGRESS, LegacyDisk, stuck_site

pytestmark = pytest.mark.usefixtures("legacy_settings")

_LEDGER = (
    "select i.meeting, l.status, l.error_code from content_items i"
    " join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'"
    " where i.subdomain = %s order by i.meeting, i.date, i.occurrence"
)


def make_site(connection: Connection, disk: LegacyDisk, site: str = "town") -> None:
    stuck_site(connection, site)
    disk.text(site, "Council", "2020-01-01", "The budget passed.", "Adjourned.")
    disk.whole_text(site, "Board", "2010-01-01", "An old text of one file.")
    disk.text(site, "Planning Board's Ausschuß", "2021-01-01", "A plan was made.", padded=True, agenda=True)
    disk.pdf(site, "Zoning", "2020-01-01")
    disk.marker(site, "Lost", "2020-01-01")


def work(connection: Connection) -> None:
    """Run workers until no job is left, without delays between retries."""

    async def drain() -> None:
        app = create_app()
        async with app.open_async():
            await app.run_worker_async(wait=False, install_signal_handlers=False, listen_notify=False, concurrency=1)

    manager._load.cache_clear()
    for _ in range(20):
        connection.execute("update procrastinate_jobs set scheduled_at = null where status = 'todo'")
        asyncio.run(drain())
        if not one(connection, "select count(*) from procrastinate_jobs where status = 'todo' and args ? 'run_id'"):
            return
    raise AssertionError("there are still jobs after 20 passes")


def test_documents_become_ledger_rows_by_their_files(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk
) -> None:
    make_site(connection, legacy_disk)
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.code == 0, outcome
    assert outcome.out.splitlines() == [
        "town: 3/5 completed, 1 failed, 1 pending",
        "1 stuck sites migrated: 3/5 completed, 1 failed, 1 pending.",
    ]
    assert rows(connection, _LEDGER, ["town"]) == [
        ("Board", "processed", None),
        ("Council", "processed", None),
        ("Lost", "failed_terminal", "TextLost"),
        ("Planning Board's Ausschuß", "processed", None),
        ("Zoning", "pending", None),
    ]
    site = rows(
        connection,
        "select current_stage, ocr_total, ocr_completed, ocr_failed, coordinator_enqueued, status,"
        " started_at = '2024-05-01 10:00+00', updated_at = '2024-05-01 12:00+00' from sites",
    )
    assert site == [("ocr", 5, 3, 1, False, "needs_ocr", True, True)]
    assert one(connection, "select reason from pipeline_runs") == "migrated from legacy clerk"
    assert one(connection, "select before ->> 'status' from reconcile_log") == "needs_ocr"
    assert broken_invariants(connection) == []


def test_reconciliation_continues_the_run_and_ocr_runs_only_without_text(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk
) -> None:
    make_site(connection, legacy_disk)
    before = {path: path.read_bytes() for path in legacy_disk.root.rglob("*.txt")}
    assert clerk_command("migrate-stuck-sites").code == 0
    reconcile(connection, StorageScan(load()))
    assert rows(connection, "select count(*) from procrastinate_jobs where queue_name = 'ocr'") == [(1,)]
    work(connection)
    assert rows(connection, "select current_stage, outcome, status from sites") == [
        ("completed", "partial", "deployed")
    ]
    ocr = rows(connection, "select i.meeting from procrastinate_jobs j join content_items i"
                " on i.id = (j.args ->> 'content_item_id')::bigint where j.queue_name = 'ocr'")  # fmt: skip
    assert ocr == [("Zoning",)]
    assert {path: path.read_bytes() for path in before} == before, "texts are never modified"
    assert broken_invariants(connection) == []
    published = sqlite3.connect(legacy_disk.root / "town/meetings.db")
    pages = published.execute("select meeting, date, page, text from minutes order by meeting, page").fetchall()
    assert [row[:3] for row in pages] == [
        ("Board", "2010-01-01", 1),
        ("Council", "2020-01-01", 1),
        ("Council", "2020-01-01", 2),
        ("Zoning", "2020-01-01", 1),
    ]
    assert pages[0][3] == "An old text of one file."
    assert published.execute("select meeting, text from agendas").fetchall() == [
        ("Planning Board's Ausschuß", "A plan was made.")
    ]
    published.close()


def test_repeating_the_command_changes_nothing(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk
) -> None:
    make_site(connection, legacy_disk)
    clerk_command("migrate-stuck-sites")
    ledger = "select * from content_items i left join content_item_pipeline_state l on l.content_item_id = i.id"
    before = rows(connection, ledger), sorted(legacy_disk.root.rglob("*"))
    outcome = clerk_command("migrate-stuck-sites")
    assert (outcome.code, outcome.out) == (0, "No site is stuck.\n")
    assert (rows(connection, ledger), sorted(legacy_disk.root.rglob("*"))) == before
    assert one(connection, "select count(*) from pipeline_runs") == 1


def test_an_interrupted_migration_can_be_repeated(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for site in ("atown", "btown", "ctown"):
        make_site(connection, legacy_disk, site)
    import_site = engine.import_legacy_site

    def interrupt(connection: Connection, subdomain: str, *more: Any) -> int | None:
        if subdomain == "btown":
            raise KeyboardInterrupt
        return import_site(connection, subdomain, *more)

    with monkeypatch.context() as patched:
        patched.setattr(engine, "import_legacy_site", interrupt)
        assert clerk_command("migrate-stuck-sites").code == 130
    assert rows(connection, "select subdomain from sites where run_id is not null") == [("atown",)]
    assert clerk_command("migrate-stuck-sites").out.splitlines()[:2] == [
        "btown: 3/5 completed, 1 failed, 1 pending",
        "ctown: 3/5 completed, 1 failed, 1 pending",
    ]
    assert one(connection, "select count(*) from content_items where kind <> 'archive'") == 15


def test_a_dry_run_changes_nothing(connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk) -> None:
    make_site(connection, legacy_disk)
    before = sorted(legacy_disk.root.rglob("*"))
    outcome = clerk_command("migrate-stuck-sites", "--dry-run", "--json")
    (site,) = json.loads(outcome.out)["sites"]
    assert (site["site"], site["total"], site["completed"], site["failed"], site["pending"]) == ("town", 5, 3, 1, 1)
    assert sorted(legacy_disk.root.rglob("*")) == before
    assert one(connection, "select count(*) from content_items") == 0
    assert one(connection, "select count(*) from sites where run_id is not null") == 0


@pytest.mark.parametrize(
    ("stage", "status", "phase"),
    [
        ("ocr", "deployed", 2),
        (None, "needs_ocr", 2),
        (None, "needs_deploy", 2),
        ("extraction", None, 2),
        ("fetch", "fetching", 1),
        ("completed", "fetching", 1),
    ],
)
def test_stuck_sites_and_the_phase_of_their_run(
    connection: Connection, legacy_disk: LegacyDisk, stage: str | None, status: str | None, phase: int
) -> None:
    stuck_site(connection, "town", stage, status)
    legacy_disk.text("town", "Council", "2020-01-01", "one")
    (migrated,) = migrate.migrate(connection, legacy_disk.root)
    assert migrated.phase == phase
    assert broken_invariants(connection) == []
    reconcile(connection, StorageScan(load()))
    assert rows(connection, "select queue_name from procrastinate_jobs where args ? 'run_id'") == [
        ("fetch",) if phase == 1 else ("coordinator",)
    ]
    assert one(connection, "select status from content_item_pipeline_state where pipeline = 'ocr'") == "processed"


@pytest.mark.parametrize(("stage", "status"), [("completed", "deployed"), (None, "new"), (None, ""), (None, None)])
def test_sites_that_are_not_stuck(
    connection: Connection, legacy_disk: LegacyDisk, stage: str | None, status: str | None
) -> None:
    stuck_site(connection, "town", stage, status)
    legacy_disk.text("town", "Council", "2020-01-01", "one")
    assert list(migrate.migrate(connection, legacy_disk.root)) == []
    (imported,) = migrate.migrate(connection, legacy_disk.root, every_site=True)
    assert (imported.run_id, imported.total) == (None, 1)
    assert list(migrate.migrate(connection, legacy_disk.root, every_site=True)) == []
    assert rows(connection, _LEDGER, ["town"]) == [("Council", "processed", None)]
    assert rows(connection, "select run_id, current_stage from sites") == [(None, None)]


def test_a_stuck_site_without_a_folder_starts_with_fetching(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk
) -> None:
    stuck_site(connection, "town")
    stuck_site(connection, "village")
    legacy_disk.text("village", "Council", "2020-01-01", "one")
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.out.startswith("town: 0/0 completed, 0 failed (starts with fetching)\n")
    assert rows(connection, "select current_stage, fetch_total from sites where subdomain = 'town'") == [("fetch", 1)]
    stuck_site(connection, "hamlet")
    assert clerk_command("migrate-stuck-sites").code == 0, "the folder is the right one: it contains village"


@pytest.mark.parametrize("exists", [False, True])
def test_a_wrong_storage_folder_is_refused(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk, exists: bool
) -> None:
    stuck_site(connection, "town")
    if exists:
        (legacy_disk.root / "something else").mkdir(parents=True)
    outcome = clerk_command("migrate-stuck-sites", "--every-site")
    assert outcome.code == 2
    assert str(legacy_disk.root) in outcome.err
    assert "set STORAGE_DIR" in outcome.err
    assert rows(connection, "select run_id from sites") == [(None,)]


def test_bad_names_are_reported_and_the_rest_is_migrated(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk
) -> None:
    for site in ("o'brien", "zürich stadt", "../escape", "town"):
        stuck_site(connection, site)
    connection.execute("insert into site_progress values ('nowhere', 'ocr', 1, 0, null, null)")
    legacy_disk.text("town", "Council", "2020-01-01", "one")
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.code == 1
    for site in ("o'brien", "zürich stadt", "../escape"):
        assert f"{site}: skipped: its name cannot be a folder name" in outcome.out
    assert "town: 1/1 completed, 0 failed\n" in outcome.out
    assert "nowhere: in site_progress, but there is no such site: skipped" in outcome.err


def test_a_site_with_unreadable_files_is_skipped_and_the_rest_is_migrated(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk
) -> None:
    for site in ("comparing", "listing", "taking", "town"):
        stuck_site(connection, site)
        legacy_disk.text(site, "CityCouncil", "2020-01-01", "one")
    legacy_disk.text("town", "Latin", "2020-01-01", "Stra\xdfe".encode("latin-1"))
    (legacy_disk.root / "town/txt/stray").write_text("a file among the folders")
    loop = legacy_disk.root / "listing/txt/Loop"
    loop.symlink_to("Loop")
    for site, meeting in (("comparing", "City Council"), ("taking", "Dangling")):
        legacy_disk.text(site, meeting, "2020-01-01")
        (legacy_disk.root / site / "txt" / meeting / "2020-01-01/1.txt").symlink_to("nowhere.txt")
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.code == 1
    for site in ("comparing", "listing", "taking"):
        assert f"{site}: skipped: not all of its files can be used" in outcome.out
    assert "town: 1/2 completed, 1 failed\n" in outcome.out
    assert "Loop cannot be read" in outcome.err
    assert "minutes Dangling/2020-01-01 cannot be imported" in outcome.err
    assert "its documents cannot be compared" in outcome.err
    assert rows(connection, "select subdomain from sites where run_id is not null") == [("town",)]
    assert rows(connection, "select distinct subdomain from content_items") == [("town",)]
    assert one(connection, "select error_message from content_item_pipeline_state where error_code = 'TextLost'") == (
        "the PDF is missing, and the text of page 1 is not UTF-8; the next fetch may restore it"
    )
    loop.unlink()
    assert "listing: 1/1 completed" in clerk_command("migrate-stuck-sites").out


def test_folders_with_the_same_name_in_clerk_keep_all_documents(
    connection: Connection, legacy_disk: LegacyDisk
) -> None:
    stuck_site(connection, "town")
    legacy_disk.text("town", "CityCouncil", "2020-01-01", "morning")
    legacy_disk.text("town", "City Council", "2020-01-01", "evening")
    legacy_disk.text("town", "CityCouncil", "2020-01-02", "the same")
    legacy_disk.text("town", "City Council", "2020-01-02", "the same")
    legacy_disk.marker("town", "City Council", "2020-01-02")
    list(migrate.migrate(connection, legacy_disk.root))
    query = "select date::text, occurrence from content_items where kind = 'minutes' order by 1, 2"
    documents = rows(connection, query)
    assert documents == [("2020-01-01", 1), ("2020-01-01", 2), ("2020-01-02", 1)]
    second = legacy_disk.root / "town/txt/CityCouncil/2020-01-01_2"
    assert (second / "1.txt").read_text() == "evening"
    connection.execute("update sites set run_id = null, current_stage = null")
    connection.execute("delete from pipeline_runs")
    connection.execute("delete from content_items")
    list(migrate.migrate(connection, legacy_disk.root))
    assert rows(connection, query) == documents, "the second import finds its own links"


def test_files_are_copied_where_hard_links_are_not_supported(
    connection: Connection, legacy_disk: LegacyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("hard links are not supported")

    monkeypatch.setattr(os, "link", fail)
    stuck_site(connection, "town")
    legacy_disk.whole_text("town", "Board", "2010-01-01", "An old text")
    list(migrate.migrate(connection, legacy_disk.root))
    assert (legacy_disk.root / "town/txt/Board/2010-01-01/1.txt").read_text() == "An old text"
    (made,) = (manifest.load(path) for path in legacy_disk.root.rglob("manifest.json"))
    assert made is not None
    assert (made.pdf_sha256, made.page_count, made.is_complete) == (None, 1, True)
    assert made.pages[0].has_text


def test_the_first_version_of_the_progress_table(connection: Connection) -> None:
    connection.execute(PROGRESS.replace("subdomain varchar primary key", "site_id varchar primary key"))
    connection.execute("insert into sites (subdomain) values ('town')")
    connection.execute("insert into site_progress (site_id, current_stage) values ('town', 'ocr')")
    assert [row.stuck_in for row in tables.read(connection).stuck] == ["ocr"]


def test_a_site_with_json_that_jsonb_rejects(connection: Connection) -> None:
    connection.execute("alter table sites add column finance_data_types json")
    stuck_site(connection, "town")
    connection.execute("""update sites set finance_data_types = '["a", "\\u0000"]'""")
    (row,) = tables.read(connection).stuck
    assert engine.import_legacy_site(connection, "town", Jsonb([]), 1) is not None
    assert (row.subdomain, one(connection, "select before ->> 'last_updated' from reconcile_log")) == ("town", "")


def test_two_operators_do_not_import_a_site_twice(
    connection: Connection, legacy_disk: LegacyDisk, database: str
) -> None:
    make_site(connection, legacy_disk)
    (row,) = tables.read(connection).stuck
    first = migrate.migrate_site(connection, legacy_disk.root, row)
    with psycopg.connect(database, autocommit=True) as other:
        second = migrate.migrate_site(other, legacy_disk.root, row)
    assert (first.run_id is None, second.run_id) == (False, None)
    assert one(connection, "select count(*) from pipeline_runs") == 1


def test_repeated_ocr_keeps_a_backup_of_legacy_files(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk
) -> None:
    """A text with a gap and legacy images: OCR runs again, and the legacy files are kept."""
    stuck_site(connection, "town")
    legacy_disk.text("town", "Council", "2020-01-01", "legacy page 1", "legacy page 2", "legacy page 3")
    (legacy_disk.root / "town/txt/Council/2020-01-01/2.txt").unlink()
    legacy_disk.images("town", "Council", "2020-01-01", 3)
    legacy_disk.pdf("town", "Council", "2020-01-01", pages=2)
    legacy_disk.text("town", "Council", "2020-01-01", "legacy agenda", agenda=True)
    legacy_disk.pdf("town", "Council", "2020-01-01", pages=2, agenda=True)
    (legacy_disk.root / "town/meetings.db").write_bytes(b"legacy archive")
    folders = ("txt/Council/2020-01-01", "images/Council/2020-01-01", "_agendas/txt/Council/2020-01-01")
    town, backup = legacy_disk.root / "town", legacy_disk.root / "town/before-clerk"

    def files(base: Path) -> dict[str, bytes]:
        names = (f"{folder}/{path.name}" for folder in folders for path in (base / folder).glob("*.[tp]*"))
        return {name: (base / name).read_bytes() for name in sorted(names)}

    before = files(town)
    assert len(before) == 6
    assert clerk_command("migrate-stuck-sites").code == 0
    assert files(town) == before, "until OCR runs, all files stay where they are"
    reconcile(connection, StorageScan(load()))
    work(connection)
    assert rows(connection, _LEDGER, ["town"]) == [("Council", "processed", None)] * 2
    assert "The motion carried." in (town / folders[0] / "1.txt").read_text()
    assert not (town / folders[0] / "3.txt").exists()
    assert files(backup) == before
    assert (backup / "meetings.db").read_bytes() == b"legacy archive"

    engine.rewind(connection, "town", "ocr")
    work(connection)
    assert [path.name for path in backup.glob("txt/Council/*")] == ["2020-01-01"], "files of clerk are not backed up"
    assert files(backup) == before


def test_an_imported_text_is_backed_up_before_ocr_is_repeated(connection: Connection, legacy_disk: LegacyDisk) -> None:
    stuck_site(connection, "town")
    town, folder = legacy_disk.root / "town", "txt/Council/2020-01-01"
    legacy_disk.text("town", "Council", "2020-01-01", "first")
    legacy_disk.pdf("town", "Council", "2020-01-01")
    list(migrate.migrate(connection, legacy_disk.root))
    reconcile(connection, StorageScan(load()))
    work(connection)
    assert not (town / "before-clerk" / folder).exists()
    engine.rewind(connection, "town", "ocr")
    work(connection)
    assert (town / "before-clerk" / folder / "1.txt").read_text() == "first"
    assert "The motion carried." in (town / folder / "1.txt").read_text()

    # Back to legacy clerk, which runs OCR once more, then a second import.
    (town / folder / "manifest.json").unlink()
    (town / folder / "1.txt").write_text("second")
    connection.execute("update sites set run_id = null, current_stage = 'ocr'")
    connection.execute("delete from content_items")
    list(migrate.migrate(connection, legacy_disk.root))
    engine.rewind(connection, "town", "ocr")
    work(connection)
    assert (town / "before-clerk" / folder / "1.txt").read_text() == "first", "never overwritten"
    assert (town / "before-clerk" / f"{folder}.2" / "1.txt").read_text() == "second"


def test_a_single_text_file_replaces_incomplete_pages_which_are_backed_up(
    connection: Connection, legacy_disk: LegacyDisk
) -> None:
    stuck_site(connection, "town")
    legacy_disk.whole_text("town", "Board", "2010-01-01", "all of it")
    legacy_disk.text("town", "Board", "2010-01-01", "page one", "page two")
    legacy_disk.pdf("town", "Board", "2010-01-01", pages=3)
    for is_repeated in (False, True):
        if is_repeated:
            connection.execute("update sites set run_id = null, current_stage = 'ocr'")
            connection.execute("delete from pipeline_runs")
            connection.execute("delete from content_items")
        (migrated,) = migrate.migrate(connection, legacy_disk.root)
        assert (migrated.skipped, migrated.problems, migrated.documents["processed"]) == (None, [], 1)
    (document,) = repository.list_documents(connection, "town")
    storage = SiteStorage(legacy_disk.root, "town")
    assert manifest.page_texts(storage, document) == [(1, "all of it")]
    backup = legacy_disk.root / "town/before-clerk/txt/Board"
    assert [path.name for path in backup.iterdir()] == ["2010-01-01"]
    assert [(backup / "2010-01-01" / f"{page}.txt").read_text() for page in (1, 2)] == ["page one", "page two"]
    assert (legacy_disk.root / "town/txt/Board/2010-01-01.txt").read_text() == "all of it"


def test_a_missing_program_is_reported_at_the_start(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_site(connection, legacy_disk)
    monkeypatch.setenv("PATH", str(legacy_disk.root))
    for options in ([], ["--dry-run"]):
        outcome = clerk_command("migrate-stuck-sites", *options)
        assert (outcome.code, outcome.out) == (1, "")
        assert "pdfinfo is not installed; on Debian: apt install poppler-utils" in outcome.err
    assert rows(connection, "select run_id from sites") == [(None,)]


def test_meetings_with_undecodable_names_are_imported(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk
) -> None:
    stuck_site(connection, "town")
    legacy_disk.text("town", os.fsdecode(b"Stra\xdfe und Verkehr"), "2020-01-01", "one")
    legacy_disk.text("town", os.fsdecode(b"\xff\xfe"), "2020-01-01", "two")
    outcome = clerk_command("migrate-stuck-sites")
    assert (outcome.code, outcome.err) == (0, "")
    assert [row[:2] for row in rows(connection, _LEDGER, ["town"])] == [
        ("Meeting", "processed"),
        ("Stra e und Verkehr", "processed"),
    ]
    assert (legacy_disk.root / "town/txt/StraEUndVerkehr/2020-01-01/1.txt").read_text() == "one"


def test_a_site_behind_a_dangling_link_is_skipped(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk
) -> None:
    for site in ("linked", "plain", "town"):
        stuck_site(connection, site)
    legacy_disk.text("town", "Council", "2020-01-01", "one")
    (legacy_disk.root / "linked").symlink_to("unmounted")
    (legacy_disk.root / "plain").write_text("a file")
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.code == 1
    assert f"{legacy_disk.root}/linked is a dangling link" in outcome.err
    assert f"{legacy_disk.root}/plain cannot be read (Not a directory)" in outcome.err
    assert rows(connection, "select subdomain from sites where run_id is not null") == [("town",)]


def test_a_site_that_the_database_rejects_is_skipped_and_the_rest_is_migrated(
    connection: Connection, legacy_disk: LegacyDisk, clerk_command: Clerk
) -> None:
    for site in ("atown", "btown"):
        make_site(connection, legacy_disk, site)
    connection.execute(
        "alter table sites add constraint no_run_of_atown check (subdomain <> 'atown' or run_id is null)"
    )
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.code == 1
    assert "atown: skipped: the database refuses it (new row for relation" in outcome.out
    assert rows(connection, "select subdomain from sites where run_id is not null") == [("btown",)]
    assert rows(connection, "select distinct subdomain from content_items") == [("btown",)]


def test_time_formats_of_the_progress_table(connection: Connection) -> None:
    plain = PROGRESS.replace("started_at timestamptz", "started_at timestamp")
    connection.execute(plain.replace("updated_at timestamptz", "another_column text"))
    for site, started in (("a", "2024-05-01 10:00"), ("b", "infinity"), ("c", None)):
        connection.execute("insert into sites (subdomain) values (%s)", [site])
        connection.execute(
            "insert into site_progress (subdomain, current_stage, started_at) values (%s, 'ocr', %s)", [site, started]
        )
    connection.execute("set timezone = 'America/New_York'")
    progress = [row.progress for row in tables.read(connection).stuck]
    assert (
        progress
        == [tables.Progress("ocr", datetime(2024, 5, 1, 10, tzinfo=UTC), None)]
        + [tables.Progress("ocr", None, None)] * 2
    )
