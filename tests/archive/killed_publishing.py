"""`python -m tests.archive.killed_publishing BEFORE PLAYGROUND`: publish a second version over a first, keeping one."""

from __future__ import annotations

import sys
from pathlib import Path

from clerk.publish.versions import SiteVersions
from tests.archive.kill_helpers import at_every_step
from tests.archive.library import is_whole, rows


def work(folder: Path) -> None:
    SiteVersions(folder / "published", "springfield").publish(folder / "new.db", keep=1)


def look(folder: Path) -> object:
    published = SiteVersions(folder / "published", "springfield")
    database = published.link / "meetings.db"
    return {
        "text": rows(database.resolve(), "select text from minutes")[0][0],
        "whole": is_whole(database.resolve()),
        "listed": all(is_whole(version.path / "meetings.db") for version in published.versions()),
        "known": published.current is not None,
    }


if __name__ == "__main__":
    at_every_step(work, Path(sys.argv[1]), Path(sys.argv[2]), look)
