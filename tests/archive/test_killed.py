"""SIGKILL at every step leaves the old or the new files, never a mixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from clerk.archive.compile import compile_site
from clerk.archive.selection import select
from clerk.publish.versions import SiteVersions
from tests.archive import kill_helpers, killed_compiling
from tests.archive.helpers import SiteDocuments


@pytest.mark.parametrize("has_archive", [True, False])
def test_a_killed_compilation(tmp_path: Path, has_archive: bool) -> None:
    before = tmp_path / "before"
    site = SiteDocuments(before)
    site.add("one", "two", number=1)
    if has_archive:
        compile_site(site.storage, select(site.storage, site.candidates.values()))
    site.add("agenda", kind="agenda", number=2)
    kills = kill_helpers.run("tests.archive.killed_compiling", before, tmp_path / "scratch")
    old = {"pages": [2, 0], "intact": True} if has_archive else None
    new = {"pages": [2, 1], "intact": True}
    states = [kill["state"] for kill in kills]
    assert len(kills) > 15, "there are steps to kill at"
    assert all(state in (old, new) for state in states)
    assert states[0] == old
    assert states[-1] == new
    assert states == sorted(states, key=lambda state: state == new), "the switch happens once"
    # Leftover drafts do not disturb the next build.
    killed_compiling.work(tmp_path / "scratch")
    assert killed_compiling.inspect(tmp_path / "scratch") == {"pages": (2, 1), "intact": True}


def test_a_killed_publication(tmp_path: Path) -> None:
    before = tmp_path / "before"
    site = SiteDocuments(tmp_path / "storage")
    document = site.add("old")
    compile_site(site.storage, select(site.storage, site.candidates.values()))
    SiteVersions(before / "published", "springfield").publish(site.storage.database, keep=1)
    site.add("new", revision=2, lineage_id=document.id)
    compile_site(site.storage, select(site.storage, site.candidates.values()))
    (before / "new.db").write_bytes(site.storage.database.read_bytes())
    kills = kill_helpers.run("tests.archive.killed_publishing", before, tmp_path / "scratch")
    old = {"text": "old", "intact": True, "all_intact": True, "has_current": True}
    new = {**old, "text": "new"}
    states = [kill["state"] for kill in kills]
    assert len(kills) > 15
    assert all(state in (old, new) for state in states)
    assert states[0] == old
    assert states[-1] == new
    # Publishing again after a kill gives the new version, without a second copy of it.
    published = SiteVersions(tmp_path / "scratch" / "published", "springfield")
    published.publish(before / "new.db", keep=5)
    newest = published.versions()[-1]
    assert [version.content_hash for version in published.versions()].count(newest.content_hash) == 1
