"""Columns on images of pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from clerk.documents.word_boxes import SCALE, Word
from clerk.ocr.columns import Region, find_regions
from clerk.ocr.page_processor import join_results, place_words
from clerk.ocr.tesseract import OcrResult
from tests.ocr import pdfs
from tests.ocr.pdfs import LEFT_COLUMN, RIGHT_COLUMN

WIDE = tuple(f"{left} {right}" for left, right in zip(LEFT_COLUMN, RIGHT_COLUMN, strict=True))
Blocks = Sequence[tuple[float, float, Sequence[str]]]


def regions(tmp_path: Path, blocks: Blocks, dpi: int = 150, angle: float = 0) -> list[Region]:
    image = pdfs.blocks_image(blocks, dpi)
    image.rotate(angle, expand=True, fillcolor=255).save(tmp_path / "page.pgm")
    return find_regions(tmp_path / "page.pgm", dpi)


@pytest.mark.parametrize("dpi", [100, 130, 150, 200, 300])
def test_two_columns(tmp_path: Path, dpi: int) -> None:
    left, right = regions(tmp_path, pdfs.TWO_COLUMNS, dpi)
    assert (left.left, right.right) == (0, round(8.5 * dpi))
    assert left.right == right.left
    assert 4.1 * dpi < right.left < 4.42 * dpi


def test_a_heading_and_a_last_paragraph_are_regions_of_their_own(tmp_path: Path) -> None:
    found = regions(tmp_path, [(0.7, 0.5, WIDE[:2]), *pdfs.TWO_COLUMNS, (0.7, 3.5, WIDE[:4])])
    assert len(found) == 4
    heading, left, right, last = found
    assert heading.right == last.right == 1275
    assert heading.bottom == left.top == right.top
    assert left.bottom == right.bottom == last.top


def test_a_sidebar_beside_prose(tmp_path: Path) -> None:
    """Its lines are not level with those of the prose."""
    names = ("Eleanor Whitfield", "Mayor", "Maria Ortega", "Council member", "Samuel Blum", "Council member")
    sidebar = [(0.7, 1.0 + number * 0.27, [name]) for number, name in enumerate(names)]
    prose = (2.6, 1.04, [line for line in LEFT_COLUMN for _ in range(1)])
    assert len(regions(tmp_path, [*sidebar, prose])) == 2


def test_the_rows_of_a_table_stay_together(tmp_path: Path) -> None:
    rows = [("Water department", "12,400", "13,900"), ("Streets", "9,800", "9,100"), ("Library", "4,250", "4,400")] * 5
    table = [
        (left, 1.0, [row[column] for row in rows])
        for column, left in enumerate((0.7, 3.5, 5.5))
    ]  # fmt: skip
    assert len(regions(tmp_path, table)) == 1


def test_an_amount_stays_beside_the_text_that_explains_it(tmp_path: Path) -> None:
    amounts = [(6.5, 1.0 + number / 6, ["12,400.00"]) for number in range(0, 12, 2)]
    assert len(regions(tmp_path, [(0.7, 1.0, LEFT_COLUMN), *amounts])) == 1


@pytest.mark.parametrize("angle", [0, 90])
def test_a_page_without_columns_is_one_region(tmp_path: Path, angle: int) -> None:
    (region,) = regions(tmp_path, [(0.7, 1.0, WIDE * 3)], angle=angle)
    with Image.open(tmp_path / "page.pgm") as image:
        assert region == (0, 0, *image.size)


def test_a_page_on_its_side_is_one_region(tmp_path: Path) -> None:
    """The gaps between paragraphs are white strips, but not between columns."""
    assert len(regions(tmp_path, [(0.7, 1.0, WIDE), (0.7, 3.5, WIDE), (0.7, 6.0, WIDE)], angle=90)) == 1


def test_specks_in_the_margin_are_no_column(tmp_path: Path) -> None:
    specks = [(0.3, 1.0 + number * 0.3, ["."]) for number in range(8)]
    assert len(regions(tmp_path, [*specks, (2.0, 1.0, LEFT_COLUMN)])) == 1


def test_an_empty_page_is_one_region(tmp_path: Path) -> None:
    assert regions(tmp_path, []) == [(0, 0, 1275, 1650)]


def test_word_boxes_of_columns_are_boxes_on_the_page() -> None:
    """Boxes of a region are in its own unit."""
    left = place_words([[Word("left", 0, 0, SCALE, SCALE)]], Region(0, 0, 600, 1000), (1000, 1000))
    right = place_words([[Word("right", SCALE // 2, 0, SCALE, SCALE // 2)]], Region(600, 0, 1000, 500), (1000, 1000))
    joined = join_results([OcrResult("x\n", 90.0, 4, False, lines) for lines in (left, right)])
    assert joined.lines == [[Word("left", 0, 0, 6000, SCALE)], [Word("right", 8000, 0, SCALE, 2500)]]
    assert joined.letters == 8
