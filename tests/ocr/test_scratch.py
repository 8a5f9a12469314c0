"""Scratch folders: deleted at the end, and by the next process if their own was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clerk.documents.manifest import Manifest
from clerk.ocr.scratch import delete_abandoned, scratch_folder
from tests.ocr import pdfs

_HOLDER = """
import sys, time
from clerk.ocr.scratch import scratch_folder
with scratch_folder("ocr-7") as folder:
    (folder / "page.pgm").write_bytes(b"P5")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)


def age(folder: Path) -> None:
    """Make the folder two minutes old."""
    os.utime(folder, (time.time() - 120, time.time() - 120))


def test_the_folder_of_a_killed_process_is_deleted_by_the_next_one() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        age(folder)
        delete_abandoned()
        assert (folder / "page.pgm").exists(), "its process lives and holds the lock"
        holder.kill()
    assert folder.is_dir()
    with scratch_folder("ocr-8") as own:
        assert not folder.exists()
        assert own.is_dir()
    assert not own.exists()


def test_a_new_folder_and_files_of_others_are_left_alone(tmp_path: Path) -> None:
    temp, precious = Path(tempfile.gettempdir()), tmp_path / "precious"
    precious.mkdir()
    (temp / "clerk-scratch-new").mkdir()
    (temp / "clerk-scratch-link").symlink_to(precious)
    (temp / "clerk-scratch-file").touch()
    (temp / "other").mkdir()
    for path in (temp / "clerk-scratch-file", temp / "other", precious):
        age(path)
    delete_abandoned()
    assert {path.name for path in temp.iterdir()} == {
        "clerk-scratch-new", "clerk-scratch-link", "clerk-scratch-file", "other"
    }  # fmt: skip
    assert precious.is_dir()


def test_ocr_deletes_abandoned_folders(process_pdf: Callable[..., Manifest]) -> None:
    abandoned = Path(tempfile.gettempdir()) / "clerk-scratch-ocr-1-abc"
    abandoned.mkdir()
    (abandoned / "page.pgm").write_bytes(b"P5")
    age(abandoned)
    process_pdf(pdfs.digital(1))
    assert list(Path(tempfile.gettempdir()).glob("clerk-scratch-*")) == []
