"""Corruptions of the storage: each is detected, and repaired by one reconciliation and the workers."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest
from click.testing import CliRunner

from clerk.cli import cli
from clerk.documents.storage import delete_folder
from tests.archive.helpers import edited, is_intact, rows
from tests.reconcile.files.site_fixture import StoredSite
from tests.s3 import BOTH_IF_LONG

STORAGES = BOTH_IF_LONG


def test_an_intact_site_needs_no_repair(site: StoredSite) -> None:
    assert site.all_processed
    assert site.plan(full=True) == []
    assert site.reconcile().done == []
    assert site.one("select count(*), count(full_scan_at) from storage_scans") == (1, 0)
    site.reconcile(full=True)
    assert site.one("select count(*), count(full_scan_at) from storage_scans") == (1, 1)


def test_a_deleted_text_is_processed_again_and_the_others_are_not(site: StoredSite) -> None:
    before, document = site.texts(), site.document("2024-01-02")
    site.storage.page_text(document, 2).unlink()
    assert site.plan() == ["texts-lost", "storage-run"]
    assert site.repair() == ["texts-lost", "storage-run"]
    assert site.all_processed
    site.assert_not_rewritten({name: mtime for name, mtime in before.items() if not name.endswith("2024-01-02/2.txt")})


@pytest.mark.folder_only  # times in a bucket are whole seconds: a full scan detects it
def test_a_changed_text_of_the_same_size_is_detected(site: StoredSite) -> None:
    document = site.document("2024-01-02")
    path = site.storage.page_text(document, 1)
    path.write_bytes(path.read_bytes().replace(b"library", b"lobrary"))
    assert site.repair() == ["texts-lost", "storage-run"]
    assert b"library" in path.read_bytes()


@pytest.mark.folder_only
def test_a_changed_text_with_its_old_mtime_is_detected_by_a_full_scan(site: StoredSite) -> None:
    document = site.document("2024-01-02")
    path = site.storage.page_text(document, 1)
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"library", b"lobrary"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert site.plan() == []
    assert site.repair(full=True) == ["texts-lost", "storage-run"]
    assert b"library" in path.read_bytes()


@pytest.mark.parametrize("damage", [b"", b'{"version": 1', b'{"version": 1, "pages": []}', None])
def test_a_damaged_or_missing_manifest(site: StoredSite, damage: bytes | None) -> None:
    path = site.storage.manifest(site.document("2024-02-06"))
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    assert site.repair() == ["texts-lost", "storage-run"]
    assert site.manifest(site.document("2024-02-06")).is_complete
    assert site.all_processed


def test_a_document_without_texts_and_pdf_is_fetched_and_processed_again(site: StoredSite) -> None:
    before, document = site.texts(), site.document("2024-01-02")
    delete_folder(site.storage.texts(document))
    site.storage.pdf(document).unlink()
    assert site.repair() == ["texts-lost", "storage-run"]
    assert site.all_processed
    assert site.storage.pdf(document).is_file()
    site.assert_not_rewritten(before, except_in=["2024-01-02"])
    assert site.one("select count(*) from content_items where kind <> 'archive'") == (3,)


def test_missing_texts_and_a_truncated_pdf(site: StoredSite) -> None:
    document = site.document("2024-01-02")
    delete_folder(site.storage.texts(document))
    pdf = site.storage.pdf(document)
    whole = pdf.read_bytes()
    pdf.write_bytes(whole[:300])
    assert site.repair() == ["texts-lost", "storage-run"]
    assert pdf.read_bytes() == whole
    assert pdf.with_name("2024-01-02.pdf.damaged").read_bytes() == whole[:300]


def test_a_document_without_any_file_fails_and_the_archive_keeps_its_pages(site: StoredSite) -> None:
    document = site.document("2024-01-02")
    delete_folder(site.storage.texts(document))
    site.storage.pdf(document).unlink()
    (site.source / "Town Council/2024-01-02.pdf").unlink()
    site.connection.execute("update content_items set removed_at_source = now() where id = %s", [document.id])
    assert site.repair() == ["texts-lost"]
    assert site.statuses()[0] == ("2024-01-02", "FilesLost", "failed_terminal")
    assert (
        "the source no longer lists it"
        in site.one("select error_message from content_item_pipeline_state where error_code = 'FilesLost'")[0]
    )
    site.add_to_source("Town Council/2024-04-02.pdf", site.storage.pdf(site.document("2024-02-06")).read_bytes())
    site.update()
    database = site.published.database.resolve()
    assert rows(database, "select count(*) from minutes where date = '2024-01-02'") == [(2,)]
    assert site.plan() == []


def test_a_document_that_the_source_lost_too_stays_in_the_archive(site: StoredSite) -> None:
    document = site.document("2024-01-02")
    delete_folder(site.storage.texts(document))
    site.storage.pdf(document).unlink()
    (site.source / "Town Council/2024-01-02.pdf").unlink()
    assert site.repair() == ["texts-lost", "storage-run"]
    assert site.statuses()[0] == ("2024-01-02", "FilesLost", "failed_terminal")
    assert site.pages_published() == 4


@pytest.mark.folder_only
def test_restored_texts_are_used_without_ocr(site: StoredSite) -> None:
    document, backup = site.document("2024-01-02"), site.folder / "backup"
    site.connection.execute("update content_items set removed_at_source = now() where id = %s", [document.id])
    site.storage.pdf(document).unlink()
    shutil.move(site.storage.texts(document), backup)
    assert site.repair() == ["texts-lost"]
    shutil.move(backup, site.storage.texts(document))
    before = site.texts()
    assert site.repair() == ["texts-complete"]
    assert site.all_processed
    site.assert_not_rewritten(before)


def test_a_restored_pdf_is_processed(site: StoredSite) -> None:
    document = site.document("2024-01-02")
    site.connection.execute("update content_items set removed_at_source = now() where id = %s", [document.id])
    delete_folder(site.storage.texts(document))
    content = site.storage.pdf(document).read_bytes()
    site.storage.pdf(document).unlink()
    assert site.repair() == ["texts-lost"]
    site.storage.pdf(document).write_bytes(content)
    assert site.repair() == ["texts-lost", "storage-run"]
    assert site.all_processed


def test_a_truncated_pdf_is_fetched_again_and_its_texts_are_kept(site: StoredSite) -> None:
    before, pdf = site.texts(), site.storage.pdf(site.document("2024-01-02"))
    whole = pdf.read_bytes()
    pdf.write_bytes(whole[:-100])
    assert site.repair() == ["pdf-damaged", "storage-run"]
    assert pdf.read_bytes() == whole
    site.assert_not_rewritten(before)
    assert site.one("select count(*) from content_items where pdf_missing_since is not null") == (0,)


def test_a_pdf_may_be_deleted_after_ocr(site: StoredSite) -> None:
    site.storage.pdf(site.document("2024-01-02")).unlink()
    assert site.plan(full=True) == []


@pytest.mark.folder_only  # in a bucket, a folder without objects does not exist: its images were deleted on purpose
def test_a_missing_image_is_rendered_again_from_the_pdf(site: StoredSite) -> None:
    before, document = site.texts(), site.document("2024-03-05")
    image = site.storage.page_image(document, 1)
    image.unlink()
    assert site.repair() == ["texts-lost", "storage-run"]
    assert image.is_file()
    site.assert_not_rewritten(before, except_in=["2024-03-05"])


def test_all_images_of_a_document_may_be_deleted(site: StoredSite) -> None:
    delete_folder(site.storage.page_image(site.document("2024-03-05"), 1).parent)
    assert site.plan(full=True) == []


def test_missing_extraction_results_are_extracted_again(site: StoredSite) -> None:
    before, path = site.texts(), site.storage.extracted(site.document("2024-01-02"))
    content = json.loads(path.read_bytes())
    path.unlink()
    assert site.repair() == ["extraction-lost", "storage-run"]
    assert json.loads(path.read_bytes()) == content
    site.assert_not_rewritten(before)


@pytest.mark.parametrize("damage", [None, b"", b"SQLite format 3\0 and then nothing"])
def test_a_missing_or_damaged_archive_is_compiled_again(site: StoredSite, damage: bytes | None) -> None:
    before, published = site.texts(), site.published.current
    site.storage.database.unlink()
    if damage is not None:
        site.storage.database.write_bytes(damage)
    assert site.repair() == ["archive-lost", "storage-run"]
    assert is_intact(site.storage.database)
    site.assert_not_rewritten(before)
    assert site.published.current == published
    assert site.one("select count(*) from publications") == (1,)


def _lose_all_copies(site: StoredSite, day: str) -> None:
    """Delete the texts, the PDF and the source of a document, and the archive with its pages."""
    document = site.document(day)
    delete_folder(site.storage.texts(document))
    site.storage.pdf(document).unlink()
    (site.source / f"Town Council/{day}.pdf").unlink()
    site.connection.execute("update content_items set removed_at_source = now() where id = %s", [document.id])
    site.storage.database.unlink()


def test_pages_that_only_the_published_copy_has_are_kept(site: StoredSite) -> None:
    _lose_all_copies(site, "2024-01-02")
    assert site.repair() == ["texts-lost", "archive-lost", "storage-run"]
    database = site.published.database.resolve()
    for path in (site.storage.database, database):
        assert rows(path, "select count(*) from minutes where date = '2024-01-02'") == [(2,)]
    assert site.pages_published() == 4


def test_an_archive_that_would_lose_published_pages_is_not_published(site: StoredSite) -> None:
    _lose_all_copies(site, "2024-01-02")
    delete_folder(site.published.folder)
    site.reconcile()
    site.work()
    assert ("compilation", "PagesWouldVanish") in [failure[:2] for failure in site.failures()]
    assert site.published.current is None
    assert not site.storage.database.exists()


def test_a_changed_archive_is_compiled_again(site: StoredSite) -> None:
    with edited(site.storage.database) as connection:
        connection.execute("update minutes set text = 'forged' where page = 1")
    assert site.repair() == ["archive-lost", "storage-run"]
    assert rows(site.storage.database, "select count(*) from minutes where text = 'forged'") == [(0,)]


@pytest.mark.parametrize("damage", ["deleted", "truncated", "emptied", "changed"])
def test_a_missing_or_damaged_published_copy_is_published_again(site: StoredSite, damage: str) -> None:
    current = site.published.current
    assert current is not None
    database = current.path / "meetings.db"
    if damage == "deleted":
        delete_folder(site.published.folder)
    elif damage == "truncated":
        database.write_bytes(database.read_bytes()[:9000])
    elif damage == "emptied":
        database.write_bytes(b"")
    else:
        content = bytearray(database.read_bytes())
        position = content.index(b"Whitfield")
        content[position : position + 9] = b"Whitf\0\0\0\0"
        database.write_bytes(bytes(content))
    assert site.plan() == ["publication-lost", "storage-run"]
    assert site.repair() == ["publication-lost", "storage-run"]
    assert is_intact(site.published.database.resolve())
    assert site.pages_published() == 4
    assert site.one("select count(*), count(*) filter (where lost_copy) from publications") == (2, 1)


def test_a_site_without_deployers_needs_no_published_copy(site: StoredSite) -> None:
    site.configure(path=str(site.source), deploy="none")
    delete_folder(site.published.folder)
    site.add_to_source("Town Council/2024-04-02.pdf", site.storage.pdf(site.document("2024-02-06")).read_bytes())
    assert site.update() == "succeeded"
    assert site.plan(full=True) == []


def test_a_rollback_is_not_repaired(site: StoredSite) -> None:
    site.add_to_source("Town Council/2024-04-02.pdf", site.storage.pdf(site.document("2024-02-06")).read_bytes())
    site.update()
    result = CliRunner().invoke(cli, ["rollback", "springfield"])
    assert result.exit_code == 0, result.output
    assert site.pages_published() == 4
    assert site.plan(full=True) == []


@pytest.mark.folder_only
def test_temporary_files_are_deleted_after_a_day(site: StoredSite) -> None:
    old = site.storage.folder / "txt" / ".1.txt.77.part"
    new = site.storage.folder / ".incoming" / "tmpx.part"
    for path in (old, new):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half a")
    os.utime(old, (time.time() - 90_000,) * 2)
    assert site.repair() == ["temp-files"]
    assert not old.exists()
    assert new.exists()


def test_a_repair_is_not_repeated_after_three_times(site: StoredSite) -> None:
    for _ in range(3):
        site.storage.database.unlink()
        assert site.repair() == ["archive-lost", "storage-run"]
    site.storage.database.unlink()
    result = site.reconcile()
    assert [repair.kind for repair in result.done] == ["archive-lost"]
    assert not site.storage.database.exists()
