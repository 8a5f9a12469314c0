"""A database or a storage from an older backup: they come together again, and nothing finished is done again."""

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
from clerk.plugins import manager
from tests.conftest import Databases, Url, with_database
from tests.ocr import pdfs
from tests.reconcile.files.site_fixture import World

REVISED = ("As amended on the second reading.", *pdfs.MINUTES)


@contextmanager
def restored(world: World, backup: Url, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The same storage, with another database."""
    monkeypatch.setenv("DATABASE_URL", backup)
    manager._load.cache_clear()
    with connect_to(backup) as connection:
        yield World(connection, world.storage, world.folder, world.source)


def copied(world: World, databases: Databases) -> Url:
    """A copy of the world's database as it is now. Its session steps out meanwhile: a template has no users."""
    name = f"{world.connection.info.dbname}_backup"
    with psycopg.connect(databases.url, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [world.connection.info.dbname]
        )
        template = sql.Identifier(world.connection.info.dbname)
        admin.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), template))
    databases.created.append(name)
    return with_database(databases.url, name)


def rejoin(world: World) -> None:
    world.connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)


def test_a_database_from_before_documents_were_fetched(
    world: World, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = copied(world, databases)
    rejoin(world)
    world.offer("Planning Board/2024-05-07.pdf", pdfs.digital(3))
    world.offer("Town Council/2024-01-02.pdf", pdfs.digital(2, REVISED))
    assert world.update() == "succeeded"
    assert world.one("select count(*) from content_items where kind <> 'archive'") == (5,)
    world.offer("Planning Board/2024-06-04.pdf", pdfs.digital(1))
    shutil.copy(
        world.source / "Planning Board/2024-06-04.pdf", world.storage.folder / "pdfs/PlanningBoard/2024-06-04.pdf"
    )
    before = world.texts()
    world.connection.close()

    with restored(world, backup, monkeypatch) as again:
        found = again.plan()
        assert found == [*["untracked-document"] * 3, "archive-lost", "publication-lost", "storage-run"]
        assert again.repair() == found
        assert again.all_read
        again.require_unread(before)
        assert again.connection.execute(
            "select meeting, revision, page_count, superseded_at is null from content_items"
            " where date in ('2024-01-02', '2024-05-07', '2024-06-04') order by date, revision"
        ).fetchall() == [
            ("Town Council", 1, 2, False),
            ("Town Council", 2, 2, True),
            ("Planning Board", 1, 3, True),
            ("Planning Board", 1, 1, True),
        ]
        assert again.pages_published() == 8

        assert again.update() in ("unchanged", "succeeded")
        assert again.one("select count(*), count(source_key) from content_items where kind <> 'archive'") == (6, 6)
        again.require_unread(before)
        assert again.plan(full=True) == []
        again.connection.close()


def test_a_fetch_before_reconciliation_overwrites_nothing(
    world: World, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database knows the first revision, the storage the second, the source has a third by now."""
    backup = copied(world, databases)
    rejoin(world)
    world.offer("Town Council/2024-01-02.pdf", pdfs.digital(2, REVISED))
    world.offer("Planning Board/2024-05-07.pdf", pdfs.digital(1))
    assert world.update() == "succeeded"
    second = world.storage.pdf(world.document("2024-01-02", 2))
    new = world.storage.pdf(world.document("2024-05-07"))
    content, before = second.read_bytes(), world.texts()
    world.offer("Town Council/2024-01-02.pdf", pdfs.digital(1, ("Amended again.", *pdfs.MINUTES)))
    unread, written = world.storage.manifest(world.document("2024-05-07")), new.read_bytes()
    world.connection.close()

    with restored(world, backup, monkeypatch) as again:
        again.update()
        assert second.read_bytes() == content
        assert (new.read_bytes(), unread.is_file()) == (written, True), "the same content is the same document"
        again.repair()
        assert again.connection.execute(
            "select revision, page_count, superseded_at is null from content_items"
            " where date = '2024-01-02' order by revision"
        ).fetchall() == [(1, 2, False), (2, 2, False), (3, 1, True)]
        again.require_unread(before)
        assert again.pages_published() == 4
        again.connection.close()


def test_a_database_from_the_middle_of_a_run(
    world: World, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    for month in (5, 6, 7):
        world.offer(f"Planning Board/2024-0{month}-07.pdf", pdfs.digital(2, (f"Month {month}", *pdfs.MINUTES)))
    world.start(phase=1)
    world.work_on("fetch", "coordinator")
    assert world.one("select current_stage, ocr_total from sites") == ("ocr", 3)
    backup = copied(world, databases)
    rejoin(world)
    world.work()
    assert world.one("select outcome from sites") == ("succeeded",)
    before = world.texts()
    world.connection.close()

    with restored(world, backup, monkeypatch) as again:
        assert again.plan() == ["texts-complete"] * 3
        assert again.repair() == ["texts-complete"] * 3
        assert again.all_read
        assert again.one("select current_stage, outcome, ocr_total, ocr_completed, ocr_failed from sites") == (
            "completed",
            "succeeded",
            3,
            3,
            0,
        )
        again.require_unread(before)
        assert again.one("select count(*) from pipeline_transitions where run_id = (select run_id from sites)") == (4,)
        again.connection.close()


def test_a_storage_from_before_documents_were_read(world: World) -> None:
    older = world.folder / "older"
    shutil.copytree(world.storage.root, older, symlinks=True)
    world.offer("Planning Board/2024-05-07.pdf", pdfs.digital(3))
    world.offer("Town Council/2024-01-02.pdf", pdfs.digital(2, REVISED))
    assert world.update() == "succeeded"
    shutil.rmtree(world.storage.root)
    older.rename(world.storage.root)
    before = world.texts()
    assert sorted(set(world.plan())) == ["archive-lost", "publication-lost", "storage-run", "texts-lost"]
    world.repair()
    assert world.all_read
    world.require_unread(before)
    assert world.one("select count(*) from content_items where kind <> 'archive'") == (5,)
    assert world.pages_published() == 7


def test_a_storage_from_the_middle_of_a_run(world: World) -> None:
    world.offer("Planning Board/2024-05-07.pdf", pdfs.digital(3))
    world.start(phase=1)
    world.work_on("fetch", "coordinator")
    older = world.folder / "older"
    shutil.copytree(world.storage.root, older, symlinks=True)
    world.work()
    shutil.rmtree(world.storage.root)
    older.rename(world.storage.root)
    before = world.texts()
    world.repair()
    assert world.all_read
    world.require_unread(before)
    assert world.pages_published() == 7


def test_a_real_dump_brought_back(world: World, databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    dump, url = world.folder / "clerk.dump", os.environ["DATABASE_URL"]
    subprocess.run([bundled(18) / "pg_dump", "--format=custom", f"--file={dump}", url], check=True)
    world.offer("Planning Board/2024-05-07.pdf", pdfs.digital(3))
    assert world.update() == "succeeded"
    before = world.texts()
    world.connection.close()
    backup = databases.create()
    subprocess.run([bundled(18) / "pg_restore", f"--dbname={backup}", "--exit-on-error", dump], check=True)

    with restored(world, backup, monkeypatch) as again:
        assert again.repair() == ["untracked-document", "archive-lost", "publication-lost", "storage-run"]
        again.require_unread(before)
        assert again.all_read
        assert again.update() == "unchanged"
        assert again.pages_published() == 7
        again.connection.close()
