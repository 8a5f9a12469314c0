"""The published folder: versions side by side, one of them current."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from clerk.archive import atomic_build
from clerk.archive.compile import compile_site
from clerk.archive.selection import select
from clerk.errors import ArchiveDamaged, ArchiveMissing
from clerk.publish.versions import NoSuchVersion, SiteVersions
from tests.archive.library import Shelf, rows


@pytest.fixture
def published(tmp_path: Path) -> SiteVersions:
    return SiteVersions(tmp_path / "published", "springfield")


@pytest.fixture
def archive(shelf: Shelf) -> Callable[[str], Path]:
    """An archive with this text."""

    def made(text: str) -> Path:
        shelf.candidates.clear()
        shelf.put(text, number=1)
        compile_site(shelf.storage, select(shelf.storage, shelf.candidates.values()))
        return shelf.storage.database

    return made


def current_text(published: SiteVersions) -> str:
    return str(rows((published.link / "meetings.db").resolve(), "select text from minutes")[0][0])


def test_what_is_published_is_behind_a_link(published: SiteVersions, archive: Callable[[str], Path]) -> None:
    version = published.publish(archive("one"), keep=3)
    assert published.link.is_symlink()
    assert not published.link.readlink().is_absolute(), "the folder may be moved"
    assert published.current == version
    assert current_text(published) == "one"


def test_the_same_content_is_not_published_twice(published: SiteVersions, archive: Callable[[str], Path]) -> None:
    first = published.publish(archive("one"), keep=3)
    assert published.publish(archive("one"), keep=3) == first
    assert len(published.versions()) == 1


def test_a_changed_archive_does_not_change_what_is_published(
    published: SiteVersions, archive: Callable[[str], Path]
) -> None:
    published.publish(archive("one"), keep=3)
    archive("two")
    assert current_text(published) == "one"


def test_so_many_versions_are_kept_and_readers_keep_what_they_opened(
    published: SiteVersions, archive: Callable[[str], Path]
) -> None:
    published.publish(archive("0"), keep=2)
    with closing(sqlite3.connect((published.link / "meetings.db").resolve())) as reader:
        reader.execute("select 1 from minutes").fetchall()
        for number in range(1, 5):
            published.publish(archive(str(number)), keep=2)
        assert reader.execute("select text from minutes").fetchall() == [("0",)]
    assert len(published.versions()) == 2
    assert len(list(published.versions_folder.iterdir())) == 2
    assert current_text(published) == "4"


def test_back_and_forth(published: SiteVersions, archive: Callable[[str], Path]) -> None:
    for text in ("one", "two", "three"):
        published.publish(archive(text), keep=3)
    published.switch_to(published.before_current())
    assert current_text(published) == "two"
    published.switch_to(published.before_current())
    assert current_text(published) == "one"
    with pytest.raises(NoSuchVersion):
        published.before_current()
    with pytest.raises(NoSuchVersion):
        published.named("../../etc")
    published.switch_to(published.named(published.versions()[-1].name))
    assert current_text(published) == "three"


def test_the_current_version_is_never_removed(published: SiteVersions, archive: Callable[[str], Path]) -> None:
    for text in ("one", "two", "three"):
        published.publish(archive(text), keep=3)
    oldest = published.versions()[0]
    published.switch_to(oldest)
    published.publish(archive("one"), keep=1)
    assert [version.name for version in published.versions()] == [oldest.name]
    assert current_text(published) == "one"


def test_a_clock_that_was_set_back_does_not_mix_up_the_order(
    published: SiteVersions, archive: Callable[[str], Path]
) -> None:
    first = published.publish(archive("one"), keep=3)
    later = first.path.with_name("29990101T000000000000Z-" + first.name.partition("-")[2])
    first.path.rename(later)
    second = published.publish(archive("two"), keep=3)
    assert second.name > later.name
    assert published.before_current().name == later.name


def test_a_damaged_archive_is_not_published(published: SiteVersions, archive: Callable[[str], Path]) -> None:
    published.publish(archive("one"), keep=3)
    database = archive("two")
    with database.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 12_000)
    with pytest.raises(ArchiveDamaged):
        published.publish(database, keep=3)
    with pytest.raises(ArchiveMissing):
        published.publish(database.with_name("nothing.db"), keep=3)
    assert current_text(published) == "one"
    assert len(list(published.versions_folder.iterdir())) == 1, "nothing is left behind"


def test_what_the_dead_left_is_cleared_away(published: SiteVersions, archive: Callable[[str], Path]) -> None:
    published.publish(archive("one"), keep=3)
    long_ago, just_now = published.versions_folder / ".old.part", published.versions_folder / ".young.part"
    for leftover in (long_ago, just_now):
        leftover.mkdir()
        (leftover / "meetings.db").touch()
    os.utime(long_ago, (1, 1))
    database = archive("two")
    forgotten = database.with_name(".meetings.db.x.part")
    forgotten.touch()
    os.utime(forgotten, (1, 1))
    published.publish(database, keep=3)
    assert not long_ago.exists()
    assert just_now.exists(), "somebody may be at it"
    atomic_build.remove_stale_drafts(database)
    assert not forgotten.exists()


def test_a_site_cannot_publish_into_anothers_folder(tmp_path: Path) -> None:
    for name in ("../other", "a/b", "..", "", "_all"):
        with pytest.raises(ValueError, match="subdomain"):
            SiteVersions(tmp_path, name)
