"""kill -9 at every step: what is left is the old or the new, never a mix."""

from __future__ import annotations

from pathlib import Path

import pytest

from clerk.archive.compile import compile_site
from clerk.archive.selection import select
from clerk.publish.versions import SiteVersions
from tests.archive import kill_helpers, killed_compiling
from tests.archive.library import Shelf


@pytest.mark.parametrize("there_was_one", [True, False])
def test_a_compilation_that_is_killed(tmp_path: Path, there_was_one: bool) -> None:
    before = tmp_path / "before"
    shelf = Shelf(before)
    shelf.put("one", "two", number=1)
    if there_was_one:
        compile_site(shelf.storage, select(shelf.storage, shelf.candidates.values()))
    shelf.put("agenda", kind="agenda", number=2)
    deaths = kill_helpers.run("tests.archive.killed_compiling", before, tmp_path / "playground")
    old = {"pages": [2, 0], "whole": True} if there_was_one else None
    new = {"pages": [2, 1], "whole": True}
    left = [death["left"] for death in deaths]
    assert len(deaths) > 15, "there were steps to die at"
    assert all(one in (old, new) for one in left)
    assert left[0] == old
    assert left[-1] == new
    assert left == sorted(left, key=lambda one: one == new), "once new, always new"
    # The next build is not disturbed by what the dead left behind.
    killed_compiling.work(tmp_path / "playground")
    assert killed_compiling.look(tmp_path / "playground") == {"pages": (2, 1), "whole": True}


def test_a_publication_that_is_killed(tmp_path: Path) -> None:
    before = tmp_path / "before"
    shelf = Shelf(tmp_path / "storage")
    document = shelf.put("old")
    compile_site(shelf.storage, select(shelf.storage, shelf.candidates.values()))
    SiteVersions(before / "published", "springfield").publish(shelf.storage.database, keep=1)
    shelf.put("new", revision=2, lineage_id=document.id)
    compile_site(shelf.storage, select(shelf.storage, shelf.candidates.values()))
    (before / "new.db").write_bytes(shelf.storage.database.read_bytes())
    deaths = kill_helpers.run("tests.archive.killed_publishing", before, tmp_path / "playground")
    old = {"text": "old", "whole": True, "listed": True, "known": True}
    new = {**old, "text": "new"}
    left = [death["left"] for death in deaths]
    assert len(deaths) > 15
    assert all(one in (old, new) for one in left)
    assert left[0] == old
    assert left[-1] == new
    # Wherever it died, publishing again ends with the new version, and with no second copy of it.
    published = SiteVersions(tmp_path / "playground" / "published", "springfield")
    published.publish(before / "new.db", keep=5)
    assert len([one for one in published.versions() if one.content_hash == published.versions()[-1].content_hash]) == 1
