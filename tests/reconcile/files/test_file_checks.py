"""When files are looked at, and when it is better not to: a storage that is not there, a site that is alive."""

from __future__ import annotations

import json
import os
import shutil
import threading
from datetime import timedelta

import pytest
from click.testing import CliRunner

from clerk.cli import cli
from clerk.config import load
from clerk.db.connection import connect_to
from clerk.documents.storage import SiteStorage
from clerk.pipeline import engine
from clerk.reconcile.apply import reconcile
from clerk.reconcile.file_checks import StorageScan, read_sites
from clerk.reconcile.plan import make_plan
from clerk.reconcile.repair import Repair
from tests.archive.helpers import add_site
from tests.reconcile.files.site_fixture import World


@pytest.mark.parametrize("how", ["missing", "empty", "another"])
def test_a_storage_that_is_not_there_is_not_a_loss(world: World, how: str, caplog: pytest.LogCaptureFixture) -> None:
    world.storage.root.rename(world.folder / "elsewhere")
    if how != "missing":
        world.storage.root.mkdir()
    if how == "another":
        (world.storage.root / "lost+found").mkdir()
        (world.storage.root / "_published").mkdir()
    before = world.one("select md5(string_agg(l::text, ',' order by l.id)) from content_item_pipeline_state l")
    assert world.plan() == ["storage-missing"]
    with caplog.at_level("WARNING"):
        for _ in range(2):
            result = world.reconcile()
            assert (result.done, result.failed) == ([], [])
            (repair,) = result.reports
            assert repair.kind == "storage-missing"
            assert "the storage is missing" in repair.found
            assert "nothing was changed" in repair.found
    assert caplog.text.count("the storage is missing") == 1, "said once, not with every pass"
    assert world.one("select count(*) from reconcile_log") == (0,), "no repair failed"
    assert CliRunner().invoke(cli, ["reconcile-pipeline"]).exit_code == 3
    assert world.one("select md5(string_agg(l::text, ',' order by l.id)) from content_item_pipeline_state l") == before
    assert world.one("select count(*) from storage_scans") == (0,)


def test_a_folder_of_published_archives_that_is_not_there_is_not_a_loss(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk of its own; within the storage it is where that is."""
    published = world.folder / "www" / "published"
    published.parent.mkdir()
    (world.storage.root / "_published").rename(published)
    monkeypatch.setenv("CLERK_PUBLISH_DIR", str(published))
    assert world.plan(full=True) == []
    published.rename(world.folder / "elsewhere")
    assert world.plan(full=True) == ["storage-missing"]
    world.storage.page_text(world.document("2024-01-02"), 1).unlink()
    assert world.plan() == ["storage-missing", "texts-lost", "storage-run"], "the storage itself is looked at"
    said = CliRunner().invoke(cli, ["verify"])
    assert said.exit_code == 3
    assert "the folder of published archives is missing" in said.stdout


def test_a_database_without_documents_needs_no_storage(world: World) -> None:
    shutil.rmtree(world.storage.root)
    world.connection.execute("delete from sites")
    assert world.plan() == []


def test_one_site_whose_folder_is_gone_is_a_loss(world: World) -> None:
    """While another's is there, the storage is."""
    add_site(world.connection, "shelbyville")
    world.connection.execute(
        "insert into content_items (subdomain, kind, meeting, date, sha256)"
        " values ('shelbyville', 'minutes', 'Council', '2024-01-02', repeat('a', 64))"
    )
    world.connection.execute("update sites set updated_at = now() where subdomain = 'shelbyville'")
    (world.storage.root / "shelbyville").mkdir()
    shutil.rmtree(world.storage.folder)
    assert world.plan().count("texts-lost") == 3
    world.repair()
    assert world.all_read


def test_files_that_cannot_be_read_are_not_gone(world: World) -> None:
    """A folder where a file should be: any error but `not found`, whoever runs the test."""
    path = world.storage.manifest(world.document("2024-01-02"))
    path.unlink()
    path.mkdir()
    ((repair, _),) = world.reconcile().failed
    assert repair.kind == "storage-unreadable"
    assert world.all_read


def test_a_folder_of_a_site_that_nobody_knows_is_named_and_left(world: World) -> None:
    strange = SiteStorage(world.storage.root, "ogdenville").folder / "pdfs" / "Council" / "2024-01-02.pdf"
    strange.parent.mkdir(parents=True)
    strange.write_bytes(b"%PDF-1.4")
    assert world.plan() == ["unknown-site"]
    assert world.reconcile().done == []
    assert strange.exists()
    said = CliRunner().invoke(cli, ["reconcile-pipeline", "--dry-run"])
    assert said.stdout.startswith("NOTE  ogdenville: ")
    assert said.stdout.endswith("\nNothing to repair.\n"), "what is only reported is not counted"


def test_what_clerk_did_not_put_there_is_left(world: World) -> None:
    folder = world.storage.folder / "pdfs" / "TownCouncil"
    for name in ("notes.txt", "2024-13-45.pdf", "2024-05-01_r1.pdf", "2024-05-02.pdf.damaged", "2024-05-03.pdf"):
        (folder / name).write_bytes(b"not a PDF")
    assert world.plan(full=True) == []


def test_a_run_that_moves_is_left_alone(world: World) -> None:
    world.start(phase=2)
    scan = StorageScan(load())
    assert read_sites(world.connection, None, timedelta(hours=2), None) == []
    assert [one.subdomain for one in read_sites(world.connection, None, timedelta(0), None)] == ["springfield"]
    world.storage.page_text(world.document("2024-01-02"), 1).unlink()
    assert make_plan(world.connection, scan) == []


def test_those_come_first_whose_run_ended_then_the_longest_unlooked_at(world: World) -> None:
    for number, days in enumerate((3, 1, 2)):
        add_site(world.connection, f"town{number}")
        world.connection.execute(
            "insert into storage_scans (subdomain, attempted_at) values (%s, now() - make_interval(days => %s))",
            [f"town{number}", days],
        )
    world.connection.execute("update sites set updated_at = now() - interval '9 days' where subdomain like 'town%'")
    add_site(world.connection, "never")
    order = [one.subdomain for one in read_sites(world.connection, None, timedelta(hours=2), None)]
    assert set(order[:2]) == {"never", "springfield"}
    assert order[2:] == ["town0", "town2", "town1"]
    assert len(read_sites(world.connection, None, timedelta(hours=2), 3)) == 3


def test_a_site_whose_trouble_lasts_does_not_take_the_turn_of_others(world: World) -> None:
    path = world.storage.manifest(world.document("2024-01-02"))
    path.unlink()
    path.mkdir()
    add_site(world.connection, "shelbyville")
    (world.storage.root / "shelbyville").mkdir()
    world.connection.execute("update sites set updated_at = now() - interval '9 days'")
    world.connection.execute("update pipeline_runs set ended_at = now() - interval '9 days'")
    for expected in ("shelbyville", "springfield", "shelbyville"):
        (last,) = world.one("select subdomain from sites order by subdomain = %s limit 1", expected)
        scan = world.scan()
        scan.find(world.connection, last, timedelta(0), dry_run=False)
        (first, *_) = read_sites(world.connection, None, timedelta(0), None)
        assert first.subdomain == expected
    assert world.one("select clean_at from storage_scans where subdomain = 'springfield'") == (None,)


def test_what_changes_after_the_look_is_in_doubt(world: World) -> None:
    scan = world.scan()
    assert scan.find(world.connection, None, timedelta(0), dry_run=False) == []
    (after,) = world.one("select clock_timestamp()")
    scan.record(world.connection)
    assert world.one("select clean_at < %s and attempted_at < %s from storage_scans", after, after) == (True,)


def test_a_dry_run_takes_nobodys_turn(world: World) -> None:
    assert world.plan() == []
    assert world.one("select count(*) from storage_scans") == (0,)


def test_books_are_mended_while_somebody_hangs_in_the_files(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.rewind(world.connection, "springfield", "ocr")
    entered, leave = threading.Event(), threading.Event()

    def hang(*_: object) -> list[Repair]:
        entered.set()
        leave.wait(60)
        return []

    monkeypatch.setattr(StorageScan, "find", hang)
    with connect_to(os.environ["DATABASE_URL"]) as other:
        first = threading.Thread(target=reconcile, args=[other, world.scan(), None, timedelta(0)])
        first.start()
        try:
            assert entered.wait(60)
            _lose_jobs(world)
            second = world.reconcile()
        finally:
            leave.set()
            first.join()
    assert [repair.kind for repair in second.done] == ["unit"] * 3
    assert (second.busy, second.files_busy) == (False, True)
    assert not world.reconcile().files_busy, "the lock is given back"


def _lose_jobs(world: World) -> None:
    with world.connection.transaction():
        world.connection.execute("set local session_replication_role = replica")
        world.connection.execute("delete from procrastinate_jobs where status = 'todo'")


def test_what_the_books_lack_and_the_files_have_is_mended_in_one_pass_as_planned(world: World) -> None:
    engine.rewind(world.connection, "springfield", "ocr")
    _lose_jobs(world)
    world.connection.execute("update sites set updated_at = now() - interval '3 hours'")
    planned = [repair.kind for repair in make_plan(world.connection, world.scan())]
    assert planned == [*["unit"] * 3, *["texts-complete"] * 3]
    assert [repair.kind for repair in reconcile(world.connection, world.scan()).done] == planned
    assert world.all_read


def test_the_command_line(world: World) -> None:
    world.storage.page_text(world.document("2024-01-02"), 1).unlink()
    run = CliRunner().invoke
    said = run(cli, ["reconcile-pipeline", "--dry-run", "--storage", "none"])
    assert (said.exit_code, said.stdout) == (0, "Nothing to repair.\n")
    said = run(cli, ["reconcile-pipeline", "--dry-run", "--json"])
    kinds = [repair["kind"] for repair in json.loads(said.stdout)["repairs"]]
    assert kinds == ["texts-lost", "storage-run"]
    said = run(cli, ["reconcile-pipeline", "--storage", "all", "--site", "springfield"])
    assert said.exit_code == 0, said.output
    assert "the text file 1.txt is missing; process it again" in said.stdout
    world.work()
    assert run(cli, ["reconcile-pipeline", "--storage", "all"]).stdout == "Nothing to repair.\n"
