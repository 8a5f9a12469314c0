"""`clerk demo`: from a folder of PDFs to a searchable archive, with real workers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from clerk.demo.documents import HIDDEN_WORD, digital, make_all, scanned
from clerk.documents.storage import write

DAY = date(2024, 3, 5)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents" / "City Council"
    r = random.Random(1)  # noqa: S311 (not for cryptography)
    write(folder / "2024-03-05.pdf", digital(r, "Springfield", DAY, 2))
    write(folder / "2024-03-12.pdf", scanned(r, "Springfield", DAY, 1, HIDDEN_WORD))
    write(folder / "2024-03-19.pdf", b"<html>moved</html>")
    return folder.parent


def clerk(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CLERK_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        [sys.executable, "-m", "clerk", *arguments], env=environment, cwd=home.parent, capture_output=True, text=True
    )


def test_a_folder_is_archived_and_a_second_run_changes_nothing(documents: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    try:
        first = clerk("demo", str(documents), home=home)
        assert first.returncode == 0, first.stdout + first.stderr
        assert "documents  3: 3 of unknown kind" in first.stdout, "shown as by clerk site add"
        assert ["documents", "partial", "3", "3", "1"] in [line.split() for line in first.stdout.splitlines()]
        assert "NotAPdf" in first.stdout
        found = clerk("search", HIDDEN_WORD, home=home)
        assert "City Council, 2024-03-12, minutes, page 1" in found.stdout
        assert clerk("verify", home=home).returncode == 0
        second = clerk("demo", str(documents), home=home)
        assert second.returncode == 0, second.stdout + second.stderr
        assert "unchanged" in second.stdout
    finally:
        clerk("db", "stop", "--force", home=home)


def test_documents_are_generated_once(tmp_path: Path) -> None:
    count = make_all(tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pdf")}
    assert len(files) == count
    make_all(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pdf")} == files
