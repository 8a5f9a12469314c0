"""A folder with 21 real file names: every file is read or listed, and the next run reads what an operator dates."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sources.documents import REAL_NAMES, text_pdf


class Installation:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        root = str(Path(__file__).parents[2])
        unset = ("DATABASE_URL", "STORAGE_DIR", "CLERK_PUBLISH_DIR")
        inherited = {name: value for name, value in os.environ.items() if name not in unset}
        self.environment = {**inherited, "CLERK_HOME": str(folder / "home"), "PYTHONPATH": root}

    def clerk(self, *arguments: str) -> str:
        result = subprocess.run(
            [sys.executable, "-m", "clerk", *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def clerk_json(self, *arguments: str) -> Any:
        return json.loads(self.clerk(*arguments, "--json"))

    def run_site(self) -> str:
        self.clerk("update", "town")
        return self.clerk("up", "--until-idle", "--no-dashboard", "--processes", "1")


@pytest.fixture
def installation(tmp_path: Path) -> Any:
    (tmp_path / "scans").mkdir()
    for name, lines in REAL_NAMES.items():
        (tmp_path / "scans" / name).write_bytes(text_pdf(*lines))
    installation = Installation(tmp_path)
    yield installation
    installation.clerk("db", "stop", "--force")


def test_every_file_is_read_or_listed(installation: Installation) -> None:
    extra = json.dumps({"path": str(installation.folder / "scans")})
    installation.clerk("site", "add", "town", "--name", "Town", "--scraper", "directory", "--extra", extra)
    up = installation.run_site()
    # The empty pages of two scans are among the skipped files, so every document that was read has text.
    outcome = "succeeded: all done; 7 entries of the source were skipped (clerk site skipped town)"
    assert f"town: run ended: {outcome} (14 documents processed)" in up
    assert "7 entries of 1 source were skipped: town (1998-Ord-_62-98-Flood.pdf and 6 more); the newest " in up
    assert " → see them with what to do: clerk site skipped town" in up

    status = installation.clerk("status")
    assert "! 7 entries of 1 source were skipped: town (1998-Ord-_62-98-Flood.pdf and 6 more)" in status
    assert "→ see them with what to do: clerk site skipped town" in status
    site = installation.clerk("status", "town")
    assert outcome.removeprefix("succeeded: ") in site
    assert "City Council 2020-05-06 report (date from the text of the first page)" in site

    listed = installation.clerk_json("site", "skipped", "town")["skipped"]
    read = {document["id"] for document in installation.clerk_json("status", "town", "--all")["documents"]}
    assert len(listed) + len(read) == len(REAL_NAMES) == 21

    installation.clerk(
        "site", "date", "town", "ccitt.pdf", "1998-07-13", "--kind", "notice", "--meeting", "City Council"
    )
    (installation.folder / "dates.csv").write_text(
        "file,date,kind\noverlay.pdf,2017-01-22,report\n1998-Ord-_62-98-Flood.pdf,1998-07-13,\n"
    )
    installation.clerk("site", "date", "town", "--csv", str(installation.folder / "dates.csv"))
    installation.clerk("site", "ignore", "town", "example_pdf.pdf")
    assert "; 3 entries of the source were skipped" in installation.run_site()
    states = {
        row["name"]: row["state"] for row in installation.clerk_json("site", "skipped", "town", "--all")["skipped"]
    }
    assert states == {
        "example_pdf.pdf": "ignored",
        "2018-Ord-_89-2018-Tree-Cutting-Amendment.pdf": "open",
        "2018-Res-_259-Planning-Development-Fees.pdf": "open",
        "Irvine_Granicus.pdf": "open",
    }
    archive = installation.folder / "home" / "storage" / "town" / "meetings.db"
    with sqlite3.connect(archive) as connection:
        others = connection.execute("select kind, meeting, date from other_documents order by date, kind").fetchall()
    assert ("ordinance", "1998 Ord 62 98 Flood", "1998-07-13") in others
    assert ("report", "City Council", "2021-08-04") in others
    assert {kind for kind, _, _ in others} >= {"report", "resolution", "ordinance"}
    assert "2020-05-06, report, page 1" in installation.clerk("search", "MEETING DATE")
    installation.clerk("verify")
