"""Each way to break the storage: named, healed by one reconciliation and the workers, and then there is silence."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing

import pytest
from click.testing import CliRunner

from clerk.cli import cli
from tests.archive.helpers import is_intact, rows
from tests.reconcile.files.site_fixture import World


def test_a_finished_town_is_in_order(world: World) -> None:
    assert world.all_read
    assert world.plan(full=True) == []
    assert world.reconcile().done == []
    assert world.one("select count(*), count(full_scan_at) from storage_scans") == (1, 0)
    world.reconcile(full=True)
    assert world.one("select count(*), count(full_scan_at) from storage_scans") == (1, 1)


def test_a_text_that_was_removed_is_read_again_and_the_others_are_not(world: World) -> None:
    before, document = world.texts(), world.document("2024-01-02")
    world.storage.page_text(document, 2).unlink()
    assert world.plan() == ["texts-lost", "storage-run"]
    assert world.repair() == ["texts-lost", "storage-run"]
    assert world.all_read
    world.require_unread({name: when for name, when in before.items() if not name.endswith("2024-01-02/2.txt")})


def test_a_text_that_was_altered_is_found_though_its_size_is_right(world: World) -> None:
    document = world.document("2024-01-02")
    path = world.storage.page_text(document, 1)
    path.write_bytes(path.read_bytes().replace(b"library", b"lobrary"))
    assert world.repair() == ["texts-lost", "storage-run"]
    assert b"library" in path.read_bytes()


def test_a_text_that_decayed_in_silence_is_found_by_the_whole_look(world: World) -> None:
    document = world.document("2024-01-02")
    path = world.storage.page_text(document, 1)
    was = path.stat()
    path.write_bytes(path.read_bytes().replace(b"library", b"lobrary"))
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert world.plan() == []
    assert world.repair(full=True) == ["texts-lost", "storage-run"]
    assert b"library" in path.read_bytes()


@pytest.mark.parametrize("damage", [b"", b'{"version": 1', b'{"version": 1, "pages": []}', None])
def test_a_damaged_or_missing_manifest(world: World, damage: bytes | None) -> None:
    path = world.storage.manifest(world.document("2024-02-06"))
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    assert world.repair() == ["texts-lost", "storage-run"]
    assert world.manifest(world.document("2024-02-06")).is_complete
    assert world.all_read


def test_texts_and_pdf_gone_are_fetched_and_read_again(world: World) -> None:
    before, document = world.texts(), world.document("2024-01-02")
    shutil.rmtree(world.storage.texts(document))
    world.storage.pdf(document).unlink()
    assert world.repair() == ["texts-lost", "storage-run"]
    assert world.all_read
    assert world.storage.pdf(document).is_file()
    world.require_unread(before, but=["2024-01-02"])
    assert world.one("select count(*) from content_items where kind <> 'archive'") == (3,)


def test_texts_gone_and_pdf_truncated(world: World) -> None:
    document = world.document("2024-01-02")
    shutil.rmtree(world.storage.texts(document))
    pdf = world.storage.pdf(document)
    whole = pdf.read_bytes()
    pdf.write_bytes(whole[:300])
    assert world.repair() == ["texts-lost", "storage-run"]
    assert pdf.read_bytes() == whole
    assert pdf.with_name("2024-01-02.pdf.damaged").read_bytes() == whole[:300]


def test_nothing_left_of_a_document_is_said_and_the_archive_keeps_what_it_has(world: World) -> None:
    document = world.document("2024-01-02")
    shutil.rmtree(world.storage.texts(document))
    world.storage.pdf(document).unlink()
    (world.source / "Town Council/2024-01-02.pdf").unlink()
    world.connection.execute("update content_items set removed_at_source = now() where id = %s", [document.id])
    assert world.repair() == ["texts-lost"]
    assert world.statuses()[0] == ("2024-01-02", "FilesLost", "failed_terminal")
    assert (
        "the source no longer lists it"
        in world.one("select error_message from content_item_pipeline_state where error_code = 'FilesLost'")[0]
    )
    world.offer("Town Council/2024-04-02.pdf", world.storage.pdf(world.document("2024-02-06")).read_bytes())
    world.update()
    database = (world.published.link / "meetings.db").resolve()
    assert rows(database, "select count(*) from minutes where date = '2024-01-02'") == [(2,)]
    assert world.plan() == []


def test_a_source_that_lost_it_too_does_not_take_it_from_the_archive(world: World) -> None:
    document = world.document("2024-01-02")
    shutil.rmtree(world.storage.texts(document))
    world.storage.pdf(document).unlink()
    (world.source / "Town Council/2024-01-02.pdf").unlink()
    assert world.repair() == ["texts-lost", "storage-run"]
    assert world.statuses()[0] == ("2024-01-02", "FilesLost", "failed_terminal")
    assert world.pages_published() == 4


def test_texts_that_come_back_are_taken_as_they_are(world: World) -> None:
    document, aside = world.document("2024-01-02"), world.folder / "aside"
    world.connection.execute("update content_items set removed_at_source = now() where id = %s", [document.id])
    world.storage.pdf(document).unlink()
    shutil.move(world.storage.texts(document), aside)
    assert world.repair() == ["texts-lost"]
    shutil.move(aside, world.storage.texts(document))
    before = world.texts()
    assert world.repair() == ["texts-complete"]
    assert world.all_read
    world.require_unread(before)


def test_a_pdf_that_comes_back_is_read(world: World) -> None:
    document = world.document("2024-01-02")
    world.connection.execute("update content_items set removed_at_source = now() where id = %s", [document.id])
    shutil.rmtree(world.storage.texts(document))
    content = world.storage.pdf(document).read_bytes()
    world.storage.pdf(document).unlink()
    assert world.repair() == ["texts-lost"]
    world.storage.pdf(document).write_bytes(content)
    assert world.repair() == ["texts-lost", "storage-run"]
    assert world.all_read


def test_a_truncated_pdf_is_fetched_again_and_its_texts_are_left(world: World) -> None:
    before, pdf = world.texts(), world.storage.pdf(world.document("2024-01-02"))
    whole = pdf.read_bytes()
    pdf.write_bytes(whole[:-100])
    assert world.repair() == ["pdf-damaged", "storage-run"]
    assert pdf.read_bytes() == whole
    world.require_unread(before)
    assert world.one("select count(*) from content_items where pdf_missing_since is not null") == (0,)


def test_a_pdf_that_was_cleared_away_after_reading_is_not_missed(world: World) -> None:
    world.storage.pdf(world.document("2024-01-02")).unlink()
    assert world.plan(full=True) == []


def test_an_image_that_is_gone_is_made_again_from_the_pdf(world: World) -> None:
    before, document = world.texts(), world.document("2024-03-05")
    image = world.storage.page_image(document, 1)
    image.unlink()
    assert world.repair() == ["texts-lost", "storage-run"]
    assert image.is_file()
    world.require_unread(before, but=["2024-03-05"])


def test_images_that_were_cleared_away_are_not_missed(world: World) -> None:
    shutil.rmtree(world.storage.page_image(world.document("2024-03-05"), 1).parent)
    assert world.plan(full=True) == []


def test_people_and_votes_that_are_gone_are_extracted_again(world: World) -> None:
    before, path = world.texts(), world.storage.extracted(world.document("2024-01-02"))
    content = json.loads(path.read_bytes())
    path.unlink()
    assert world.repair() == ["extraction-lost", "storage-run"]
    assert json.loads(path.read_bytes()) == content
    world.require_unread(before)


@pytest.mark.parametrize("damage", [None, b"", b"SQLite format 3\0 and then nothing"])
def test_an_archive_that_is_gone_or_damaged_is_compiled_again(world: World, damage: bytes | None) -> None:
    before, published = world.texts(), world.published.current
    world.storage.database.unlink()
    if damage is not None:
        world.storage.database.write_bytes(damage)
    assert world.repair() == ["archive-lost", "storage-run"]
    assert is_intact(world.storage.database)
    world.require_unread(before)
    assert world.published.current == published
    assert world.one("select count(*) from publications") == (1,)


def _lose_for_good(world: World, day: str) -> None:
    """Texts, PDF and source of a document, and the archive that has its pages."""
    document = world.document(day)
    shutil.rmtree(world.storage.texts(document))
    world.storage.pdf(document).unlink()
    (world.source / f"Town Council/{day}.pdf").unlink()
    world.connection.execute("update content_items set removed_at_source = now() where id = %s", [document.id])
    world.storage.database.unlink()


def test_pages_that_are_only_published_stay_so_when_the_archive_is_compiled_again(world: World) -> None:
    _lose_for_good(world, "2024-01-02")
    assert world.repair() == ["texts-lost", "archive-lost", "storage-run"]
    database = (world.published.link / "meetings.db").resolve()
    for path in (world.storage.database, database):
        assert rows(path, "select count(*) from minutes where date = '2024-01-02'") == [(2,)]
    assert world.pages_published() == 4


def test_nothing_is_published_that_lacks_pages_which_nobody_has_any_more(world: World) -> None:
    _lose_for_good(world, "2024-01-02")
    shutil.rmtree(world.published.folder)
    world.reconcile()
    world.work()
    assert ("compilation", "PagesWouldVanish") in [found[:2] for found in world.failures()]
    assert world.published.current is None
    assert not world.storage.database.exists()


def test_an_archive_with_other_content_is_compiled_again(world: World) -> None:
    with closing(sqlite3.connect(world.storage.database)) as connection:
        connection.execute("update minutes set text = 'forged' where page = 1")
        connection.commit()
    assert world.repair() == ["archive-lost", "storage-run"]
    assert rows(world.storage.database, "select count(*) from minutes where text = 'forged'") == [(0,)]


@pytest.mark.parametrize("damage", ["removed", "cut", "emptied", "decayed"])
def test_a_published_copy_that_is_gone_or_damaged_is_published_again(world: World, damage: str) -> None:
    current = world.published.current
    assert current is not None
    database = current.path / "meetings.db"
    if damage == "removed":
        shutil.rmtree(world.published.folder)
    elif damage == "cut":
        database.write_bytes(database.read_bytes()[:9000])
    elif damage == "emptied":
        database.write_bytes(b"")
    else:
        content = bytearray(database.read_bytes())
        place = content.index(b"Whitfield")
        content[place : place + 9] = b"Whitf\0\0\0\0"
        database.write_bytes(content)
    assert world.plan() == ["publication-lost", "storage-run"]
    assert world.repair() == ["publication-lost", "storage-run"]
    assert is_intact((world.published.link / "meetings.db").resolve())
    assert world.pages_published() == 4
    assert world.one("select count(*), count(*) filter (where lost_copy) from publications") == (2, 1)


def test_a_site_that_is_published_nowhere_any_more_misses_nothing(world: World) -> None:
    world.configure(path=str(world.source), deploy="none")
    shutil.rmtree(world.published.folder)
    world.offer("Town Council/2024-04-02.pdf", world.storage.pdf(world.document("2024-02-06")).read_bytes())
    assert world.update() == "succeeded"
    assert world.plan(full=True) == []


def test_what_an_operator_rolled_back_to_is_left(world: World) -> None:
    world.offer("Town Council/2024-04-02.pdf", world.storage.pdf(world.document("2024-02-06")).read_bytes())
    world.update()
    said = CliRunner().invoke(cli, ["rollback", "springfield"])
    assert said.exit_code == 0, said.output
    assert world.pages_published() == 4
    assert world.plan(full=True) == []


def test_temporary_files_go_when_they_are_a_day_old(world: World) -> None:
    old = world.storage.folder / "txt" / ".1.txt.77.part"
    new = world.storage.folder / ".incoming" / "tmpx.part"
    for path in (old, new):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half a")
    os.utime(old, (time.time() - 90_000,) * 2)
    assert world.repair() == ["temp-files"]
    assert not old.exists()
    assert new.exists()


def test_a_site_that_loses_its_files_again_and_again_is_not_run_for_ever(world: World) -> None:
    for _ in range(3):
        world.storage.database.unlink()
        assert world.repair() == ["archive-lost", "storage-run"]
    world.storage.database.unlink()
    result = world.reconcile()
    assert [repair.kind for repair in result.done] == ["archive-lost"]
    assert not world.storage.database.exists()
