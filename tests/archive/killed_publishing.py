"""`python -m tests.archive.killed_publishing BEFORE SCRATCH`: publishes a second version and keeps one."""

from __future__ import annotations

import sys
from pathlib import Path

from clerk.publish.versions import SiteVersions
from tests.archive.helpers import is_intact, rows
from tests.archive.kill_helpers import kill_at_every_step


def work(folder: Path) -> None:
    SiteVersions(folder / "published", "springfield").publish(folder / "new.db", keep=1)


def inspect(folder: Path) -> object:
    published = SiteVersions(folder / "published", "springfield")
    database = published.link / "meetings.db"
    return {
        "text": rows(database.resolve(), "select text from minutes")[0][0],
        "intact": is_intact(database.resolve()),
        "all_intact": all(is_intact(version.path / "meetings.db") for version in published.versions()),
        "has_current": published.current is not None,
    }


if __name__ == "__main__":
    kill_at_every_step(work, Path(sys.argv[1]), Path(sys.argv[2]), inspect)
