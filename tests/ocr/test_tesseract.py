"""Tesseract's process: stays, is replaced when it fails, and says the same whatever was asked before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clerk.errors import ToolMissing
from clerk.ocr.ocr_engine import limited_server
from clerk.ocr.sandbox import Crashed, Limits, OutOfTime
from clerk.ocr.tesseract import Tesseract, installed_languages, models
from tests.ocr import pdfs

PLENTY = 1 << 29


@pytest.fixture
def tesseract(tmp_path: Path) -> Iterator[Tesseract]:
    made = Tesseract(limited_server(Limits(PLENTY), 60, tmp_path, None), PLENTY)
    yield made
    made.close()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.pgm"
    pdfs.page_image().save(path)
    return path


def pid_of(tesseract: Tesseract) -> int:
    assert tesseract.process is not None
    return tesseract.process.process.pid


def test_one_process_reads_page_after_page(tesseract: Tesseract, page: Path) -> None:
    first = tesseract.read(page, 150, "eng", 20)
    assert "The motion carried with four ayes and no nays." in first.text
    assert (first.confidence or 0) > 85
    assert first.letters > 300
    pid, used = pid_of(tesseract), tesseract.cpu_seconds
    assert used > 0
    assert tesseract.read(page, 150, "eng", 20) == first
    assert pid_of(tesseract) == pid
    assert tesseract.cpu_seconds > used


def test_looking_for_the_height_of_words_changes_no_reading(tesseract: Tesseract, page: Path, tmp_path: Path) -> None:
    unasked = tesseract.read(page, 150, "eng", 20)
    height = tesseract.word_height(page, 150, "eng", 20)
    assert height is not None
    assert 15 <= height <= 30
    assert tesseract.read(page, 150, "eng", 20) == unasked
    other = tmp_path / "other.pgm"
    pdfs.page_image(("Another page altogether",)).save(other)
    tesseract.word_height(other, 150, "eng", 20)
    assert tesseract.read(page, 150, "eng", 20) == unasked


def test_words_are_measured_in_pixels(tesseract: Tesseract, tmp_path: Path) -> None:
    heights = []
    for dpi in (75, 150):
        pdfs.page_image(dpi=dpi).save(tmp_path / f"{dpi}.pgm")
        heights.append(tesseract.word_height(tmp_path / f"{dpi}.pgm", dpi, "eng", 20) or 0)
    assert heights[1] == pytest.approx(2 * heights[0], abs=2.5)


def test_a_page_without_words(tesseract: Tesseract, tmp_path: Path) -> None:
    (tmp_path / "white.pgm").write_bytes(b"P5\n300 300\n255\n" + b"\xff" * 90_000)
    assert tesseract.word_height(tmp_path / "white.pgm", 150, "eng", 20) is None
    found = tesseract.read(tmp_path / "white.pgm", 150, "eng", 20)
    assert (found.text.strip(), found.confidence, found.letters) == ("", None, 0)
    assert tesseract.orientation(tmp_path / "white.pgm", 150, 20) == (0, 0.0)


def test_after_a_death_there_is_another(tesseract: Tesseract, page: Path) -> None:
    before = tesseract.read(page, 150, "eng", 20)
    pid = pid_of(tesseract)
    with pytest.raises(Crashed, match="FileNotFoundError"):
        tesseract.read(page.with_name("gone.pgm"), 150, "eng", 20)
    assert tesseract.process is None
    assert tesseract.cpu_seconds == 0.0
    assert tesseract.read(page, 150, "eng", 20) == before
    assert pid_of(tesseract) != pid


def test_killed_while_it_rested_it_is_replaced_without_a_word(tesseract: Tesseract, page: Path) -> None:
    before = tesseract.read(page, 150, "eng", 20)
    assert tesseract.process is not None
    tesseract.process.process.kill()
    tesseract.process.process.wait()
    assert tesseract.read(page, 150, "eng", 20) == before


def test_the_time_for_a_page_is_for_that_page(tesseract: Tesseract, page: Path, tmp_path: Path) -> None:
    """Limits are whole seconds: the large page takes several, all the small ones before it together even more."""
    small = pdfs.page_image(pdfs.MINUTES * 3)
    large = tmp_path / "large.pgm"
    wide = small.resize((small.width // 2, small.height // 2))
    sheet = small.resize((wide.width * 4, wide.height * 4))
    for across in range(4):
        for down in range(4):
            sheet.paste(wide, (across * wide.width, down * wide.height))
    sheet.save(large)
    while tesseract.cpu_seconds < 3:
        tesseract.read(page, 150, "eng", 2)
    with pytest.raises(OutOfTime, match="CPU"):
        tesseract.read(large, 150, "eng", 1)


def test_a_process_that_grew_large_is_not_kept(tesseract: Tesseract, page: Path) -> None:
    kept = tesseract.read(page, 150, "eng", 20)
    assert tesseract.process is not None
    tesseract.resting_memory = 1 << 20
    assert tesseract.read(page, 150, "eng", 20) == kept
    assert tesseract.process is None


def test_a_missing_model_is_named(tesseract: Tesseract, page: Path) -> None:
    with pytest.raises(ToolMissing, match="no model for xyz"):
        tesseract.read(page, 150, "xyz", 20)


def model(folder: Path, language: str = "eng") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{language}.traineddata").touch()
    return folder


def test_models_are_where_the_setting_says(tmp_path: Path) -> None:
    model(tmp_path / "usr/share/tessdata")
    named = model(tmp_path / "mine" / "tessdata")
    for setting in (named, named.parent):
        assert models({"TESSDATA_PREFIX": str(setting)}, tmp_path) == named


def test_models_are_found_in_the_usual_folders_newest_first(tmp_path: Path) -> None:
    nothing = {"PATH": str(tmp_path)}
    brew = model(tmp_path / "opt/homebrew/share/tessdata")
    assert models(nothing, tmp_path) == brew
    model(tmp_path / "usr/share/tesseract-ocr/4.00/tessdata")
    newest = model(tmp_path / "usr/share/tesseract-ocr/5/tessdata")
    (tmp_path / "usr/share/tesseract-ocr/6/tessdata").mkdir(parents=True)
    assert models(nothing, tmp_path) == newest


def test_models_are_where_the_program_says(tmp_path: Path) -> None:
    odd = model(tmp_path / "odd")
    program = tmp_path / "bin" / "tesseract"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'List of available languages in \"{odd}/\" (1):'\necho eng\n")
    program.chmod(0o755)
    assert models({"PATH": str(program.parent)}, tmp_path) == odd


def test_without_models_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="apt install tesseract-ocr"):
        models({"PATH": str(tmp_path)}, tmp_path)
    with pytest.raises(ToolMissing, match="TESSDATA_PREFIX=/nowhere"):
        models({"TESSDATA_PREFIX": "/nowhere"}, tmp_path)
    assert {"eng", "osd"} <= installed_languages()
