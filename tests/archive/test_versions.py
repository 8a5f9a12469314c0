"""The published folder: versions and the link to the current one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clerk.archive import atomic_build
from clerk.archive.compile import compile_site
from clerk.archive.content_hash import open_readonly
from clerk.archive.selection import select
from clerk.documents.storage import delete_folder, write
from clerk.errors import ArchiveDamaged, ArchiveMissing
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import NoSuchVersion, SiteVersions, current_versions
from tests.archive.helpers import SiteDocuments, rows
from tests.s3 import BOTH

STORAGES = BOTH


@pytest.fixture
def published(storage_root: StoragePath) -> SiteVersions[Any]:
    return SiteVersions(storage_root / "_published", "springfield")


@pytest.fixture
def archive(site: SiteDocuments) -> Callable[[str], StoragePath]:
    """Builds an archive with this text."""

    def build(text: str) -> StoragePath:
        site.candidates.clear()
        site.add(text, number=1)
        compile_site(site.storage, select(site.storage, site.candidates.values()))
        database: StoragePath = site.storage.database
        return database

    return build


def current_text(published: SiteVersions[Any]) -> str:
    return str(rows(published.database.resolve(), "select text from minutes")[0][0])


@pytest.mark.folder_only
def test_the_current_version_is_a_relative_link(
    published: SiteVersions[Any], archive: Callable[[str], StoragePath]
) -> None:
    version = published.publish(archive("one"), keep=3)
    assert published.link.is_symlink()
    assert not published.link.readlink().is_absolute(), "the folder may be moved"
    assert published.current == version
    assert current_text(published) == "one"


def test_the_same_content_is_not_published_twice(
    published: SiteVersions[Any], archive: Callable[[str], StoragePath]
) -> None:
    first = published.publish(archive("one"), keep=3)
    assert published.publish(archive("one"), keep=3) == first
    assert len(published.versions()) == 1


def test_a_process_sees_its_own_switch_immediately(
    published: SiteVersions[Any], archive: Callable[[str], StoragePath]
) -> None:
    first = published.publish(archive("one"), keep=3)
    assert current_versions(published.root) == {"springfield": first.name}
    second = published.publish(archive("two"), keep=3)
    assert current_versions(published.root) == {"springfield": second.name}


def test_a_new_build_does_not_change_the_published_version(
    published: SiteVersions[Any], archive: Callable[[str], StoragePath]
) -> None:
    published.publish(archive("one"), keep=3)
    archive("two")
    assert current_text(published) == "one"


def test_old_versions_are_deleted_and_open_readers_keep_theirs(
    published: SiteVersions[Any], archive: Callable[[str], StoragePath]
) -> None:
    published.publish(archive("0"), keep=2)
    with open_readonly(published.database.resolve()) as reader:
        reader.execute("select 1 from minutes").fetchall()
        for number in range(1, 5):
            published.publish(archive(str(number)), keep=2)
        assert reader.execute("select text from minutes").fetchall() == [("0",)]
    assert len(published.versions()) == 2
    assert len(list(published.versions_folder.iterdir())) == 2
    assert current_text(published) == "4"


def test_switching_to_older_and_newer_versions(
    published: SiteVersions[Any], archive: Callable[[str], StoragePath]
) -> None:
    for text in ("one", "two", "three"):
        published.publish(archive(text), keep=3)
    published.switch_to(published.previous())
    assert current_text(published) == "two"
    published.switch_to(published.previous())
    assert current_text(published) == "one"
    with pytest.raises(NoSuchVersion):
        published.previous()
    with pytest.raises(NoSuchVersion):
        published.get("../../etc")
    published.switch_to(published.get(published.versions()[-1].name))
    assert current_text(published) == "three"


def test_the_current_version_is_never_deleted(
    published: SiteVersions[Any], archive: Callable[[str], StoragePath]
) -> None:
    for text in ("one", "two", "three"):
        published.publish(archive(text), keep=3)
    oldest = published.versions()[0]
    published.switch_to(oldest)
    published.publish(archive("one"), keep=1)
    assert [version.name for version in published.versions()] == [oldest.name]
    assert current_text(published) == "one"


def test_a_clock_set_back_keeps_the_order_of_versions(
    published: SiteVersions[Any], archive: Callable[[str], StoragePath]
) -> None:
    first = published.publish(archive("one"), keep=3)
    later = first.path.with_name("29990101T000000000000Z-" + first.name.partition("-")[2])
    for name in ("meetings.db", "publication.json"):
        write(later / name, (first.path / name).read_bytes())
    delete_folder(first.path)
    second = published.publish(archive("two"), keep=3)
    assert second.name > later.name
    assert published.previous().name == later.name


def test_a_damaged_archive_is_not_published(
    published: SiteVersions[Any], archive: Callable[[str], StoragePath]
) -> None:
    published.publish(archive("one"), keep=3)
    database = archive("two")
    content = database.read_bytes()
    database.write_bytes(content[:8192] + b"\xff" * 12_000 + content[20_192:])
    with pytest.raises(ArchiveDamaged):
        published.publish(database, keep=3)
    with pytest.raises(ArchiveMissing):
        published.publish(database.with_name("nothing.db"), keep=3)
    assert current_text(published) == "one"
    assert len(list(published.versions_folder.iterdir())) == 1, "nothing is left behind"


@pytest.mark.folder_only
def test_stale_drafts_are_deleted(published: SiteVersions[Any], archive: Callable[[str], StoragePath]) -> None:
    published.publish(archive("one"), keep=3)
    stale, recent = published.versions_folder / ".old.part", published.versions_folder / ".young.part"
    for leftover in (stale, recent):
        leftover.mkdir()
        (leftover / "meetings.db").touch()
    os.utime(stale, (1, 1))
    database = archive("two")
    assert isinstance(database, Path)
    stale_draft = database.with_name(".meetings.db.x.part")
    stale_draft.touch()
    os.utime(stale_draft, (1, 1))
    published.publish(database, keep=3)
    assert not stale.exists()
    assert recent.exists(), "another process may be writing it"
    atomic_build.remove_stale_drafts(database)
    assert not stale_draft.exists()


def test_a_site_cannot_publish_into_anothers_folder(tmp_path: Path) -> None:
    for name in ("../other", "a/b", "..", "", "_all"):
        with pytest.raises(ValueError, match="subdomain"):
            SiteVersions(tmp_path, name)
