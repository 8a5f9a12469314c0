"""When files are looked at, and when it is better not to: a storage that is not there, a site that is alive."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta

import pytest
from click.testing import CliRunner

from clerk.cli import cli
from clerk.config import load
from clerk.documents.storage import SiteStorage
from clerk.reconcile.plan import make_plan
from clerk.reconcile.storage import Comparison, read_sites
from tests.archive.library import add_site
from tests.storage_truth.world import World


@pytest.mark.parametrize("how", ["missing", "empty", "another"])
def test_a_storage_that_is_not_there_is_not_a_loss(world: World, how: str) -> None:
    world.storage.root.rename(world.folder / "elsewhere")
    if how != "missing":
        world.storage.root.mkdir()
    if how == "another":
        (world.storage.root / "lost+found").mkdir()
        (world.storage.root / "_published").mkdir()
    before = world.one("select md5(string_agg(l::text, ',' order by l.id)) from content_item_pipeline_state l")
    assert world.plan() == ["storage-missing"]
    result = world.reconcile()
    assert result.done == []
    ((repair, error),) = result.failed
    assert repair.kind == "storage-missing"
    assert "storage is not there" in error
    assert "nothing was touched" in error
    assert world.one("select md5(string_agg(l::text, ',' order by l.id)) from content_item_pipeline_state l") == before
    assert world.one("select count(*) from storage_looks") == (0,)


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
    world.heal()
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


def test_what_clerk_did_not_put_there_is_left(world: World) -> None:
    folder = world.storage.folder / "pdfs" / "TownCouncil"
    for name in ("notes.txt", "2024-13-45.pdf", "2024-05-01_r1.pdf", "2024-05-02.pdf.damaged", "2024-05-03.pdf"):
        (folder / name).write_bytes(b"not a PDF")
    assert world.plan(whole=True) == []


def test_a_run_that_moves_is_left_alone(world: World) -> None:
    world.start(phase=2)
    comparison = Comparison(load())
    assert read_sites(world.connection, None, timedelta(hours=2), None) == []
    assert [one.subdomain for one in read_sites(world.connection, None, timedelta(0), None)] == ["springfield"]
    world.storage.page_text(world.document("2024-01-02"), 1).unlink()
    assert make_plan(world.connection, comparison) == []


def test_those_come_first_whose_run_ended_then_the_longest_unlooked_at(world: World) -> None:
    for number, days in enumerate((3, 1, 2)):
        add_site(world.connection, f"town{number}")
        world.connection.execute(
            "insert into storage_looks (subdomain, looked_at) values (%s, now() - make_interval(days => %s))",
            [f"town{number}", days],
        )
    world.connection.execute("update sites set updated_at = now() - interval '9 days' where subdomain like 'town%'")
    add_site(world.connection, "never")
    order = [one.subdomain for one in read_sites(world.connection, None, timedelta(hours=2), None)]
    assert set(order[:2]) == {"never", "springfield"}
    assert order[2:] == ["town0", "town2", "town1"]
    assert len(read_sites(world.connection, None, timedelta(hours=2), 3)) == 3


def test_a_site_with_findings_is_looked_at_again(world: World) -> None:
    world.storage.database.unlink()
    world.reconcile()
    assert world.one("select count(*) from storage_looks") == (0,)


def test_the_command_line(world: World) -> None:
    world.storage.page_text(world.document("2024-01-02"), 1).unlink()
    run = CliRunner().invoke
    said = run(cli, ["reconcile-pipeline", "--dry-run", "--storage", "none"])
    assert (said.exit_code, said.stdout) == (0, "Nothing to mend.\n")
    said = run(cli, ["reconcile-pipeline", "--dry-run", "--json"])
    kinds = [repair["kind"] for repair in json.loads(said.stdout)["repairs"]]
    assert kinds == ["texts-lost", "storage-run"]
    said = run(cli, ["reconcile-pipeline", "--storage", "all", "--site", "springfield"])
    assert said.exit_code == 0, said.output
    assert "the text 1.txt is gone; to be read again" in said.stdout
    world.work()
    assert run(cli, ["reconcile-pipeline", "--storage", "all"]).stdout == "Nothing to mend.\n"
