"""A database or a storage restored from an older backup: both are reconciled, and no finished work is repeated."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from clerk.db.connection import connect_to
from clerk.db.embedded.server import bundled
from clerk.documents.storage import delete_folder, write
from clerk.plugins import manager
from tests.conftest import Databases, Url, with_database
from tests.ocr import pdfs
from tests.reconcile.files.site_fixture import StoredSite
from tests.s3 import BOTH_IF_LONG

STORAGES = BOTH_IF_LONG

REVISED = ("As amended on the second reading.", *pdfs.MINUTES)


@contextmanager
def restored(site: StoredSite, backup: Url, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoredSite]:
    """The same storage, with another database."""
    monkeypatch.setenv("DATABASE_URL", backup)
    manager._load.cache_clear()
    with connect_to(backup) as connection:
        yield StoredSite(connection, site.storage, site.folder, site.source)


def copy_database(site: StoredSite, databases: Databases) -> Url:
    """Copy the site's database. Its session is terminated, because a template database must have no users."""
    name = f"{site.connection.info.dbname}_backup"
    with psycopg.connect(databases.url, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [site.connection.info.dbname]
        )
        template = sql.Identifier(site.connection.info.dbname)
        admin.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), template))
    databases.created.append(name)
    return with_database(databases.url, name)


def reconnect(site: StoredSite) -> None:
    site.connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)


def test_a_database_from_before_documents_were_fetched(
    site: StoredSite, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = copy_database(site, databases)
    reconnect(site)
    site.add_to_source("Planning Board/2024-05-07.pdf", pdfs.digital(3))
    site.add_to_source("Town Council/2024-01-02.pdf", pdfs.digital(2, REVISED))
    assert site.update() == "succeeded"
    assert site.one("select count(*) from content_items where kind <> 'archive'") == (5,)
    site.add_to_source("Planning Board/2024-06-04.pdf", pdfs.digital(1))
    content = (site.source / "Planning Board/2024-06-04.pdf").read_bytes()
    write(site.storage.folder / "pdfs/PlanningBoard/2024-06-04.pdf", content)
    before = site.texts()
    site.connection.close()

    with restored(site, backup, monkeypatch) as restored_site:
        planned = restored_site.plan()
        assert planned == [*["untracked-document"] * 3, "archive-lost", "publication-lost", "storage-run"]
        assert restored_site.repair() == planned
        assert restored_site.all_processed
        restored_site.assert_not_rewritten(before)
        assert restored_site.connection.execute(
            "select meeting, revision, page_count, superseded_at is null from content_items"
            " where date in ('2024-01-02', '2024-05-07', '2024-06-04') order by date, revision"
        ).fetchall() == [
            ("Town Council", 1, 2, False),
            ("Town Council", 2, 2, True),
            ("Planning Board", 1, 3, True),
            ("Planning Board", 1, 1, True),
        ]
        assert restored_site.pages_published() == 8

        assert restored_site.update() in ("unchanged", "succeeded")
        assert restored_site.one("select count(*), count(source_key) from content_items where kind <> 'archive'") == (
            6,
            6,
        )
        restored_site.assert_not_rewritten(before)
        assert restored_site.plan(full=True) == []
        restored_site.connection.close()


def test_a_fetch_before_reconciliation_overwrites_nothing(
    site: StoredSite, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has the first revision, the storage the second, and the source a third."""
    backup = copy_database(site, databases)
    reconnect(site)
    site.add_to_source("Town Council/2024-01-02.pdf", pdfs.digital(2, REVISED))
    site.add_to_source("Planning Board/2024-05-07.pdf", pdfs.digital(1))
    assert site.update() == "succeeded"
    second = site.storage.pdf(site.document("2024-01-02", 2))
    new = site.storage.pdf(site.document("2024-05-07"))
    content, before = second.read_bytes(), site.texts()
    site.add_to_source("Town Council/2024-01-02.pdf", pdfs.digital(1, ("Amended restored_site.", *pdfs.MINUTES)))
    manifest, new_content = site.storage.manifest(site.document("2024-05-07")), new.read_bytes()
    site.connection.close()

    with restored(site, backup, monkeypatch) as restored_site:
        restored_site.update()
        assert second.read_bytes() == content
        assert (new.read_bytes(), manifest.is_file()) == (new_content, True), "the same content is the same document"
        restored_site.repair()
        assert restored_site.connection.execute(
            "select revision, page_count, superseded_at is null from content_items"
            " where date = '2024-01-02' order by revision"
        ).fetchall() == [(1, 2, False), (2, 2, False), (3, 1, True)]
        restored_site.assert_not_rewritten(before)
        assert restored_site.pages_published() == 4
        restored_site.connection.close()


def test_a_database_from_the_middle_of_a_run(
    site: StoredSite, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    for month in (5, 6, 7):
        site.add_to_source(f"Planning Board/2024-0{month}-07.pdf", pdfs.digital(2, (f"Month {month}", *pdfs.MINUTES)))
    site.start(phase=1)
    site.work_on("fetch", "coordinator")
    assert site.one("select current_stage, ocr_total from sites") == ("ocr", 3)
    backup = copy_database(site, databases)
    reconnect(site)
    site.work()
    assert site.one("select outcome from sites") == ("succeeded",)
    before = site.texts()
    site.connection.close()

    with restored(site, backup, monkeypatch) as restored_site:
        assert restored_site.plan() == ["texts-complete"] * 3
        assert restored_site.repair() == ["texts-complete"] * 3
        assert restored_site.all_processed
        assert restored_site.one("select current_stage, outcome, ocr_total, ocr_completed, ocr_failed from sites") == (
            "completed",
            "succeeded",
            3,
            3,
            0,
        )
        restored_site.assert_not_rewritten(before)
        assert restored_site.one(
            "select count(*) from pipeline_transitions where run_id = (select run_id from sites)"
        ) == (4,)
        restored_site.connection.close()


@pytest.mark.folder_only
def test_a_storage_from_before_documents_were_processed(site: StoredSite) -> None:
    older = site.folder / "older"
    shutil.copytree(site.storage.root, older, symlinks=True)
    site.add_to_source("Planning Board/2024-05-07.pdf", pdfs.digital(3))
    site.add_to_source("Town Council/2024-01-02.pdf", pdfs.digital(2, REVISED))
    assert site.update() == "succeeded"
    delete_folder(site.storage.root)
    older.rename(site.storage.root)
    before = site.texts()
    assert sorted(set(site.plan())) == ["archive-lost", "publication-lost", "storage-run", "texts-lost"]
    site.repair()
    assert site.all_processed
    site.assert_not_rewritten(before)
    assert site.one("select count(*) from content_items where kind <> 'archive'") == (5,)
    assert site.pages_published() == 7


@pytest.mark.folder_only
def test_a_storage_from_the_middle_of_a_run(site: StoredSite) -> None:
    site.add_to_source("Planning Board/2024-05-07.pdf", pdfs.digital(3))
    site.start(phase=1)
    site.work_on("fetch", "coordinator")
    older = site.folder / "older"
    shutil.copytree(site.storage.root, older, symlinks=True)
    site.work()
    delete_folder(site.storage.root)
    older.rename(site.storage.root)
    before = site.texts()
    site.repair()
    assert site.all_processed
    site.assert_not_rewritten(before)
    assert site.pages_published() == 7


def test_a_restored_dump(site: StoredSite, databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    dump, url = site.folder / "clerk.dump", os.environ["DATABASE_URL"]
    subprocess.run([bundled(18) / "pg_dump", "--format=custom", f"--file={dump}", url], check=True)
    site.add_to_source("Planning Board/2024-05-07.pdf", pdfs.digital(3))
    assert site.update() == "succeeded"
    before = site.texts()
    site.connection.close()
    backup = databases.create()
    subprocess.run([bundled(18) / "pg_restore", f"--dbname={backup}", "--exit-on-error", dump], check=True)

    with restored(site, backup, monkeypatch) as restored_site:
        assert restored_site.repair() == ["untracked-document", "archive-lost", "publication-lost", "storage-run"]
        restored_site.assert_not_rewritten(before)
        assert restored_site.all_processed
        assert restored_site.update() == "unchanged"
        assert restored_site.pages_published() == 7
        restored_site.connection.close()
