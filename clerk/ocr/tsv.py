"""OCR results from tesseract's TSV output, which both engines use."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from clerk.documents.word_boxes import Word, group_lines, make_word
from clerk.ocr.tesseract import OcrResult

_PAGE_LEVEL, _WORD_LEVEL = "1", "5"
_MIN_WORD_ASPECT = 2
"""Words at least this many times as wide as high are measured; others may be initials, specks or lines."""


@dataclass(frozen=True)
class _Row:
    """A word that was recognized."""

    block: str
    paragraph: str
    line: str
    left: int
    top: int
    width: int
    height: int
    confidence: float
    text: str


def ocr_result(tsv: str, text: str | None = None) -> OcrResult:
    """The result with tesseract's own text, or with the same text made from the words."""
    page_width, page_height = 1, 1
    rows = []
    for cells in _cells(tsv):
        if cells[0] == _PAGE_LEVEL:
            page_width, page_height = max(int(cells[8]), 1), max(int(cells[9]), 1)
        elif cells[0] == _WORD_LEVEL and cells[11].strip():
            left, top, width, height = map(int, cells[6:10])
            rows.append(_Row(cells[2], cells[3], cells[4], left, top, width, height, float(cells[10]), cells[11]))
    lengths = [sum(character.isalnum() for character in row.text) for row in rows]
    letters = sum(lengths)
    confidence = sum(row.confidence * length for row, length in zip(rows, lengths, strict=True))
    long = [row for row, length in zip(rows, lengths, strict=True) if length >= 4]
    vertical, horizontal = sum(row.height > row.width for row in long), sum(row.width > row.height for row in long)
    lines = group_lines(((row.block, row.paragraph, row.line), _word(row, page_width, page_height)) for row in rows)
    return OcrResult(
        _text(rows) if text is None else text,
        confidence / letters if letters else None,
        letters,
        vertical > horizontal,
        lines,
    )


def word_height(tsv: str) -> float | None:
    """The median height in pixels of words that are long enough."""
    words = ((int(cells[8]), int(cells[9])) for cells in _cells(tsv) if cells[0] == _WORD_LEVEL and cells[11].strip())
    return median_height(words)


def median_height(sizes: Iterator[tuple[int, int]]) -> float | None:
    """`sizes`: width and height of each word."""
    heights = [height for width, height in sizes if width > _MIN_WORD_ASPECT * height]
    return statistics.median(heights) if heights else None


def _cells(tsv: str) -> Iterator[list[str]]:
    for line in tsv.split("\n"):
        cells = line.split("\t")
        if len(cells) == 12 and cells[0].isdecimal():
            yield cells


def _word(row: _Row, page_width: int, page_height: int) -> Word:
    right, bottom = row.left + row.width, row.top + row.height
    return make_word(row.text, row.left, row.top, right, bottom, page_width, page_height)


def _text(rows: list[_Row]) -> str:
    """A line for each line, an empty line after each paragraph, as tesseract writes it."""
    text = ""
    for number, row in enumerate(rows):
        following = rows[number + 1] if number + 1 < len(rows) else None
        if following and (row.block, row.paragraph, row.line) == (following.block, following.paragraph, following.line):
            end = " "
        elif following and (row.block, row.paragraph) == (following.block, following.paragraph):
            end = "\n"
        else:
            end = "\n\n"
        text += row.text + end
    return text
