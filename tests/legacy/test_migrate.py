"""`clerk migrate-stuck-sites`: from what lies on disk to a run that goes on, and nothing is read again."""

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
from tests.legacy.legacy_system import PROGRESS, OldDisk, stuck_site

pytestmark = pytest.mark.usefixtures("settled")

_LEDGER = (
    "select i.meeting, l.status, l.error_code from content_items i"
    " join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'"
    " where i.subdomain = %s order by i.meeting, i.date, i.occurrence"
)


def a_bit_of_everything(connection: Connection, disk: OldDisk, site: str = "town") -> None:
    stuck_site(connection, site)
    disk.text(site, "Council", "2020-01-01", "The budget passed.", "Adjourned.")
    disk.whole_text(site, "Board", "2010-01-01", "An old text of one file.")
    disk.text(site, "Planning Board's Ausschuß", "2021-01-01", "A plan was made.", padded=True, agenda=True)
    disk.pdf(site, "Zoning", "2020-01-01")
    disk.marker(site, "Lost", "2020-01-01")


def work(connection: Connection) -> None:
    """Workers until nothing is left, retries at once."""

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
    raise AssertionError("the jobs do not end")


def test_documents_become_ledger_rows_by_what_there_is_of_them(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk
) -> None:
    a_bit_of_everything(connection, old_disk)
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.code == 0, outcome
    assert outcome.out.splitlines() == [
        "town: 3/5 completed, 1 failed, 1 to read",
        "1 stuck sites migrated: 3/5 completed, 1 failed, 1 to read.",
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
    assert one(connection, "select reason from pipeline_runs") == "migrated from the older system"
    assert one(connection, "select before ->> 'status' from reconcile_log") == "needs_ocr"
    assert broken_invariants(connection) == []


def test_the_run_goes_on_by_reconciliation_and_reads_only_what_has_no_text(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk
) -> None:
    a_bit_of_everything(connection, old_disk)
    before = {path: path.read_bytes() for path in old_disk.root.rglob("*.txt")}
    assert clerk_command("migrate-stuck-sites").code == 0
    reconcile(connection, StorageScan(load()))
    assert rows(connection, "select count(*) from procrastinate_jobs where queue_name = 'ocr'") == [(1,)]
    work(connection)
    assert rows(connection, "select current_stage, outcome, status from sites") == [
        ("completed", "partial", "deployed")
    ]
    read = rows(connection, "select i.meeting from procrastinate_jobs j join content_items i"
                " on i.id = (j.args ->> 'content_item_id')::bigint where j.queue_name = 'ocr'")  # fmt: skip
    assert read == [("Zoning",)]
    assert {path: path.read_bytes() for path in before} == before, "texts are never written"
    assert broken_invariants(connection) == []
    published = sqlite3.connect(old_disk.root / "town/meetings.db")
    found = published.execute("select meeting, date, page, text from minutes order by meeting, page").fetchall()
    assert [row[:3] for row in found] == [
        ("Board", "2010-01-01", 1),
        ("Council", "2020-01-01", 1),
        ("Council", "2020-01-01", 2),
        ("Zoning", "2020-01-01", 1),
    ]
    assert found[0][3] == "An old text of one file."
    assert published.execute("select meeting, text from agendas").fetchall() == [
        ("Planning Board's Ausschuß", "A plan was made.")
    ]
    published.close()


def test_a_second_time_finds_nothing_to_do(connection: Connection, old_disk: OldDisk, clerk_command: Clerk) -> None:
    a_bit_of_everything(connection, old_disk)
    clerk_command("migrate-stuck-sites")
    books = "select * from content_items i left join content_item_pipeline_state l on l.content_item_id = i.id"
    before = rows(connection, books), sorted(old_disk.root.rglob("*"))
    outcome = clerk_command("migrate-stuck-sites")
    assert (outcome.code, outcome.out) == (0, "No site is stuck.\n")
    assert (rows(connection, books), sorted(old_disk.root.rglob("*"))) == before
    assert one(connection, "select count(*) from pipeline_runs") == 1


def test_cut_short_between_files_and_rows_it_goes_on(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for site in ("atown", "btown", "ctown"):
        a_bit_of_everything(connection, old_disk, site)
    whole = engine.import_legacy_site

    def dies(connection: Connection, subdomain: str, *more: Any) -> int | None:
        if subdomain == "btown":
            raise KeyboardInterrupt
        return whole(connection, subdomain, *more)

    with monkeypatch.context() as patched:
        patched.setattr(engine, "import_legacy_site", dies)
        assert clerk_command("migrate-stuck-sites").code == 130
    assert rows(connection, "select subdomain from sites where run_id is not null") == [("atown",)]
    assert clerk_command("migrate-stuck-sites").out.splitlines()[:2] == [
        "btown: 3/5 completed, 1 failed, 1 to read",
        "ctown: 3/5 completed, 1 failed, 1 to read",
    ]
    assert one(connection, "select count(*) from content_items where kind <> 'archive'") == 15


def test_a_rehearsal_changes_nothing(connection: Connection, old_disk: OldDisk, clerk_command: Clerk) -> None:
    a_bit_of_everything(connection, old_disk)
    before = sorted(old_disk.root.rglob("*"))
    outcome = clerk_command("migrate-stuck-sites", "--dry-run", "--json")
    (site,) = json.loads(outcome.out)["sites"]
    assert (site["site"], site["total"], site["completed"], site["failed"], site["to_read"]) == ("town", 5, 3, 1, 1)
    assert sorted(old_disk.root.rglob("*")) == before
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
def test_which_sites_are_stuck_and_where_they_go_on(
    connection: Connection, old_disk: OldDisk, stage: str | None, status: str | None, phase: int
) -> None:
    stuck_site(connection, "town", stage, status)
    old_disk.text("town", "Council", "2020-01-01", "one")
    (migrated,) = migrate.migrate(connection, old_disk.root)
    assert migrated.phase == phase
    assert broken_invariants(connection) == []
    reconcile(connection, StorageScan(load()))
    assert rows(connection, "select queue_name from procrastinate_jobs where args ? 'run_id'") == [
        ("fetch",) if phase == 1 else ("coordinator",)
    ]
    assert one(connection, "select status from content_item_pipeline_state where pipeline = 'ocr'") == "processed"


@pytest.mark.parametrize(("stage", "status"), [("completed", "deployed"), (None, "new"), (None, ""), (None, None)])
def test_which_are_not(connection: Connection, old_disk: OldDisk, stage: str | None, status: str | None) -> None:
    stuck_site(connection, "town", stage, status)
    old_disk.text("town", "Council", "2020-01-01", "one")
    assert list(migrate.migrate(connection, old_disk.root)) == []
    (taken,) = migrate.migrate(connection, old_disk.root, every_site=True)
    assert (taken.run_id, taken.total) == (None, 1)
    assert list(migrate.migrate(connection, old_disk.root, every_site=True)) == []
    assert rows(connection, _LEDGER, ["town"]) == [("Council", "processed", None)]
    assert rows(connection, "select run_id, current_stage from sites") == [(None, None)]


def test_a_stuck_site_without_a_folder_starts_with_fetching(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk
) -> None:
    stuck_site(connection, "town")
    stuck_site(connection, "village")
    old_disk.text("village", "Council", "2020-01-01", "one")
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.out.startswith("town: 0/0 completed, 0 failed (starts with fetching)\n")
    assert rows(connection, "select current_stage, fetch_total from sites where subdomain = 'town'") == [("fetch", 1)]
    stuck_site(connection, "hamlet")
    assert clerk_command("migrate-stuck-sites").code == 0, "the folder is the right one: village was found there"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_that_is_not_the_older_systems_is_refused(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk, is_there: bool
) -> None:
    stuck_site(connection, "town")
    if is_there:
        (old_disk.root / "something else").mkdir(parents=True)
    outcome = clerk_command("migrate-stuck-sites", "--every-site")
    assert outcome.code == 2
    assert str(old_disk.root) in outcome.err
    assert "set STORAGE_DIR" in outcome.err
    assert rows(connection, "select run_id from sites") == [(None,)]


def test_bad_names_are_reported_and_the_rest_is_migrated(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk
) -> None:
    for site in ("o'brien", "zürich stadt", "../escape", "town"):
        stuck_site(connection, site)
    connection.execute("insert into site_progress values ('nowhere', 'ocr', 1, 0, null, null)")
    old_disk.text("town", "Council", "2020-01-01", "one")
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.code == 1
    for site in ("o'brien", "zürich stadt", "../escape"):
        assert f"{site}: skipped: its name cannot be a folder here" in outcome.out
    assert "town: 1/1 completed, 0 failed\n" in outcome.out
    assert "nowhere: in site_progress, and no such site: skipped" in outcome.err


def test_a_site_with_unreadable_things_is_skipped_and_the_rest_is_migrated(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk
) -> None:
    for site in ("comparing", "listing", "taking", "town"):
        stuck_site(connection, site)
        old_disk.text(site, "CityCouncil", "2020-01-01", "one")
    old_disk.text("town", "Latin", "2020-01-01", "Stra\xdfe".encode("latin-1"))
    (old_disk.root / "town/txt/stray").write_text("a file among the folders")
    loop = old_disk.root / "listing/txt/Loop"
    loop.symlink_to("Loop")
    for site, meeting in (("comparing", "City Council"), ("taking", "Dangling")):
        old_disk.text(site, meeting, "2020-01-01")
        (old_disk.root / site / "txt" / meeting / "2020-01-01/1.txt").symlink_to("nowhere.txt")
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.code == 1
    for site in ("comparing", "listing", "taking"):
        assert f"{site}: skipped: not all of its files can be used" in outcome.out
    assert "town: 1/2 completed, 1 failed\n" in outcome.out
    assert "Loop cannot be read" in outcome.err
    assert "minutes Dangling/2020-01-01 cannot be taken over" in outcome.err
    assert "its documents cannot be compared" in outcome.err
    assert rows(connection, "select subdomain from sites where run_id is not null") == [("town",)]
    assert rows(connection, "select distinct subdomain from content_items") == [("town",)]
    assert one(connection, "select error_message from content_item_pipeline_state where error_code = 'TextLost'") == (
        "the PDF is gone, and the text of page 1 is not UTF-8; the next fetch may bring it back"
    )
    loop.unlink()
    assert "listing: 1/1 completed" in clerk_command("migrate-stuck-sites").out


def test_folders_that_become_one_hide_nothing_from_each_other(connection: Connection, old_disk: OldDisk) -> None:
    stuck_site(connection, "town")
    old_disk.text("town", "CityCouncil", "2020-01-01", "morning")
    old_disk.text("town", "City Council", "2020-01-01", "evening")
    old_disk.text("town", "CityCouncil", "2020-01-02", "the same")
    old_disk.text("town", "City Council", "2020-01-02", "the same")
    old_disk.marker("town", "City Council", "2020-01-02")
    list(migrate.migrate(connection, old_disk.root))
    found = rows(connection, "select date::text, occurrence from content_items where kind = 'minutes' order by 1, 2")
    assert found == [("2020-01-01", 1), ("2020-01-01", 2), ("2020-01-02", 1)]
    second = old_disk.root / "town/txt/CityCouncil/2020-01-01_2"
    assert (second / "1.txt").read_text() == "evening"
    connection.execute("update sites set run_id = null, current_stage = null")
    connection.execute("delete from content_items")
    list(migrate.migrate(connection, old_disk.root))
    assert rows(
        connection, "select date::text, occurrence from content_items where kind = 'minutes' order by 1, 2"
    ) == found, "the second time it finds its own second name"  # fmt: skip


def test_a_file_system_without_links_gets_copies(
    connection: Connection, old_disk: OldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuses)
    stuck_site(connection, "town")
    old_disk.whole_text("town", "Board", "2010-01-01", "An old text")
    list(migrate.migrate(connection, old_disk.root))
    assert (old_disk.root / "town/txt/Board/2010-01-01/1.txt").read_text() == "An old text"
    (made,) = (manifest.load(path) for path in old_disk.root.rglob("manifest.json"))
    assert made is not None
    assert (made.pdf_sha256, made.page_count, made.is_complete) == (None, 1, True)
    assert made.pages[0].has_text


def test_a_progress_table_of_the_oldest_kind(connection: Connection) -> None:
    connection.execute(PROGRESS.replace("subdomain varchar primary key", "site_id varchar primary key"))
    connection.execute("insert into sites (subdomain) values ('town')")
    connection.execute("insert into site_progress (site_id, current_stage) values ('town', 'ocr')")
    assert [row.stuck_in for row in tables.read(connection).stuck] == ["ocr"]


def test_a_site_with_json_that_jsonb_refuses(connection: Connection) -> None:
    connection.execute("alter table sites add column finance_data_types json")
    stuck_site(connection, "town")
    connection.execute("""update sites set finance_data_types = '["a", "\\u0000"]'""")
    (row,) = tables.read(connection).stuck
    assert engine.import_legacy_site(connection, "town", Jsonb([]), 1) is not None
    assert (row.subdomain, one(connection, "select before ->> 'last_updated' from reconcile_log")) == ("town", "")


def test_no_site_twice_by_two_operators(connection: Connection, old_disk: OldDisk, database: str) -> None:
    a_bit_of_everything(connection, old_disk)
    (row,) = tables.read(connection).stuck
    first = migrate.migrate_site(connection, old_disk.root, row)
    with psycopg.connect(database, autocommit=True) as other:
        second = migrate.migrate_site(other, old_disk.root, row)
    assert (first.run_id is None, second.run_id) == (False, None)
    assert one(connection, "select count(*) from pipeline_runs") == 1


def test_what_is_read_anew_replaces_nothing_that_the_older_system_made(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk
) -> None:
    """A gap in the texts, and images of another rendering: the document is read again, and all of that is kept."""
    stuck_site(connection, "town")
    old_disk.text("town", "Council", "2020-01-01", "an older first page", "an older second", "a third, of what?")
    (old_disk.root / "town/txt/Council/2020-01-01/2.txt").unlink()
    old_disk.images("town", "Council", "2020-01-01", 3)
    old_disk.pdf("town", "Council", "2020-01-01", pages=2)
    old_disk.text("town", "Council", "2020-01-01", "an agenda's first", agenda=True)
    old_disk.pdf("town", "Council", "2020-01-01", pages=2, agenda=True)
    (old_disk.root / "town/meetings.db").write_bytes(b"the archive that was published")
    places = ("txt/Council/2020-01-01", "images/Council/2020-01-01", "_agendas/txt/Council/2020-01-01")
    town, kept = old_disk.root / "town", old_disk.root / "town/before-clerk"

    def lies(base: Path) -> dict[str, bytes]:
        names = (f"{place}/{path.name}" for place in places for path in (base / place).glob("*.[tp]*"))
        return {name: (base / name).read_bytes() for name in sorted(names)}

    before = lies(town)
    assert len(before) == 6
    assert clerk_command("migrate-stuck-sites").code == 0
    assert lies(town) == before, "until it is read, all stays where the older system finds it"
    reconcile(connection, StorageScan(load()))
    work(connection)
    assert rows(connection, _LEDGER, ["town"]) == [("Council", "processed", None)] * 2
    assert "The motion carried." in (town / places[0] / "1.txt").read_text()
    assert not (town / places[0] / "3.txt").exists()
    assert lies(kept) == before
    assert (kept / "meetings.db").read_bytes() == b"the archive that was published"

    engine.rewind(connection, "town", "ocr")
    work(connection)
    assert [path.name for path in kept.glob("txt/Council/*")] == ["2020-01-01"], "what clerk made is not set aside"
    assert lies(kept) == before


def test_a_text_that_was_taken_over_is_set_aside_when_somebody_wants_it_read_again(
    connection: Connection, old_disk: OldDisk
) -> None:
    stuck_site(connection, "town")
    town, place = old_disk.root / "town", "txt/Council/2020-01-01"
    old_disk.text("town", "Council", "2020-01-01", "first")
    old_disk.pdf("town", "Council", "2020-01-01")
    list(migrate.migrate(connection, old_disk.root))
    reconcile(connection, StorageScan(load()))
    work(connection)
    assert not (town / "before-clerk" / place).exists()
    engine.rewind(connection, "town", "ocr")
    work(connection)
    assert (town / "before-clerk" / place / "1.txt").read_text() == "first"
    assert "The motion carried." in (town / place / "1.txt").read_text()

    # Back to the older system, which read it once more, and here again.
    (town / place / "manifest.json").unlink()
    (town / place / "1.txt").write_text("second")
    connection.execute("update sites set run_id = null, current_stage = 'ocr'")
    connection.execute("delete from content_items")
    list(migrate.migrate(connection, old_disk.root))
    engine.rewind(connection, "town", "ocr")
    work(connection)
    assert (town / "before-clerk" / place / "1.txt").read_text() == "first", "never overwritten"
    assert (town / "before-clerk" / f"{place}.2" / "1.txt").read_text() == "second"


def test_a_text_in_one_file_takes_the_place_of_some_pages_which_are_set_aside(
    connection: Connection, old_disk: OldDisk
) -> None:
    stuck_site(connection, "town")
    old_disk.whole_text("town", "Board", "2010-01-01", "all of it")
    old_disk.text("town", "Board", "2010-01-01", "page one", "page two")
    old_disk.pdf("town", "Board", "2010-01-01", pages=3)
    for again in (False, True):
        if again:
            connection.execute("update sites set run_id = null, current_stage = 'ocr'")
            connection.execute("delete from content_items")
        (migrated,) = migrate.migrate(connection, old_disk.root)
        assert (migrated.skipped, migrated.problems, migrated.documents["processed"]) == (None, [], 1)
    (document,) = repository.list_documents(connection, "town")
    storage = SiteStorage(old_disk.root, "town")
    assert manifest.page_texts(storage, document) == [(1, "all of it")]
    kept = old_disk.root / "town/before-clerk/txt/Board"
    assert [path.name for path in kept.iterdir()] == ["2010-01-01"]
    assert [(kept / "2010-01-01" / f"{page}.txt").read_text() for page in (1, 2)] == ["page one", "page two"]
    assert (old_disk.root / "town/txt/Board/2010-01-01.txt").read_text() == "all of it"


def test_a_program_that_is_missing_is_said_at_the_start(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_bit_of_everything(connection, old_disk)
    monkeypatch.setenv("PATH", str(old_disk.root))
    for more in ([], ["--dry-run"]):
        outcome = clerk_command("migrate-stuck-sites", *more)
        assert (outcome.code, outcome.out) == (1, "")
        assert "pdfinfo is not installed; on Debian: apt install poppler-utils" in outcome.err
    assert rows(connection, "select run_id from sites") == [(None,)]


def test_a_meeting_whose_name_is_any_bytes_is_taken_over(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk
) -> None:
    stuck_site(connection, "town")
    old_disk.text("town", os.fsdecode(b"Stra\xdfe und Verkehr"), "2020-01-01", "one")
    old_disk.text("town", os.fsdecode(b"\xff\xfe"), "2020-01-01", "two")
    outcome = clerk_command("migrate-stuck-sites")
    assert (outcome.code, outcome.err) == (0, "")
    assert [row[:2] for row in rows(connection, _LEDGER, ["town"])] == [
        ("Meeting", "processed"),
        ("Stra e und Verkehr", "processed"),
    ]
    assert (old_disk.root / "town/txt/StraEUndVerkehr/2020-01-01/1.txt").read_text() == "one"


def test_a_site_behind_a_link_to_nothing_is_skipped(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk
) -> None:
    for site in ("linked", "plain", "town"):
        stuck_site(connection, site)
    old_disk.text("town", "Council", "2020-01-01", "one")
    (old_disk.root / "linked").symlink_to("unmounted")
    (old_disk.root / "plain").write_text("a file")
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.code == 1
    assert f"{old_disk.root}/linked is a link to something that is not there" in outcome.err
    assert f"{old_disk.root}/plain cannot be read (Not a directory)" in outcome.err
    assert rows(connection, "select subdomain from sites where run_id is not null") == [("town",)]


def test_a_site_that_the_database_refuses_is_skipped_and_the_rest_is_migrated(
    connection: Connection, old_disk: OldDisk, clerk_command: Clerk
) -> None:
    for site in ("atown", "btown"):
        a_bit_of_everything(connection, old_disk, site)
    connection.execute("alter table sites add constraint hands_off check (subdomain <> 'atown' or run_id is null)")
    outcome = clerk_command("migrate-stuck-sites")
    assert outcome.code == 1
    assert "atown: skipped: the database refuses it (new row for relation" in outcome.out
    assert rows(connection, "select subdomain from sites where run_id is not null") == [("btown",)]
    assert rows(connection, "select distinct subdomain from content_items") == [("btown",)]


def test_times_of_the_progress_table_in_every_form(connection: Connection) -> None:
    plain = PROGRESS.replace("started_at timestamptz", "started_at timestamp")
    connection.execute(plain.replace("updated_at timestamptz", "another_column text"))
    for site, started in (("a", "2024-05-01 10:00"), ("b", "infinity"), ("c", None)):
        connection.execute("insert into sites (subdomain) values (%s)", [site])
        connection.execute(
            "insert into site_progress (subdomain, current_stage, started_at) values (%s, 'ocr', %s)", [site, started]
        )
    connection.execute("set timezone = 'America/New_York'")
    found = [row.progress for row in tables.read(connection).stuck]
    assert (
        found
        == [tables.Progress("ocr", datetime(2024, 5, 1, 10, tzinfo=UTC), None)]
        + [tables.Progress("ocr", None, None)] * 2
    )
