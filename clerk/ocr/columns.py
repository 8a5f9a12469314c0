"""Finds columns of text on the image of a page, so that OCR reads one column after another.

Tesseract joins the lines of two columns if the gap between them, the gutter, is narrow. Gutters are found on a small
copy of the image: white strips that are high and wide enough and have text on both sides. The gaps between the
columns of a table are such strips too, but rows of a table must stay together. So both sides must be prose, or one
side is prose and the lines of the other are not level with it, as in a sidebar.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageFilter

_SMALL_DPI = 50
_MAX_SMALL_SIDE = 1500
"""Pixels. Posters are rendered with a low resolution already."""
_INK_CONTRAST = 40
"""A pixel of the small copy is ink if it is this much darker than the paper."""
_MIN_GUTTER_WIDTH = 5
"""Pixels at `_SMALL_DPI`, odd: 0.1 inch. Spaces between words have at most 4."""
_MIN_GUTTER_HEIGHT = 0.12
"""Share of the page's height."""
_MIN_COLUMN_WIDTH = 0.12
"""Share of the page's width."""
_MIN_PROSE_LINES = 5
_MIN_SIDEBAR_LINES = 4
_MIN_LINE_WIDTH = 0.05
"""Share of the page's width. Shorter lines may be specks, or numbers in the margin."""
_MAX_LINE_HEIGHT = 20
_MAX_LEVEL_SHARE = 0.6
_MAX_DEPTH = 6


class Region(NamedTuple):
    """A rectangle of an image, in pixels."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True)
class _Line:
    top: int
    bottom: int
    left: int
    right: int
    largest_gap: int

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def find_regions(path: Path, dpi: float) -> list[Region]:
    """Parts of the image that are recognized one after another, in reading order. One if the page has no columns."""
    with Image.open(path) as image:
        whole = Region(0, 0, *image.size)
        factor = max(1, round(dpi / _SMALL_DPI), math.ceil(max(image.size) / _MAX_SMALL_SIDE))
        small = image.reduce(factor)
    ink = small.point(_ink_table(small))
    parts = [
        Region(part.left * factor, part.top * factor, part.right * factor, part.bottom * factor)
        for part in _split(ink, Region(0, 0, *ink.size), ink.size, 0)
    ]
    if len(parts) < 2:
        return [whole]
    # The small copy is a whole number of pixels: its last row and column may lie beyond the image.
    return [Region(left, top, min(right, whole.right), min(bottom, whole.bottom)) for left, top, right, bottom in parts]


def _ink_table(small: Image.Image) -> list[int]:
    """1 for grey values that are ink. The paper is the most frequent light value."""
    histogram = small.histogram()
    paper = max(range(128, 256), key=lambda value: histogram[value])
    return [int(value < paper - _INK_CONTRAST) for value in range(256)]


def _split(ink: Image.Image, region: Region, page: tuple[int, int], depth: int) -> Iterator[Region]:
    """Split at the highest gutter into the parts above, left, right and below, and split those again."""
    part = ink.crop(region)
    if part.getbbox() is None:
        return
    gutter = None if depth == _MAX_DEPTH else _find_gutter(part, page)
    if gutter is None:
        yield region
        return
    x, top, bottom = region.left + gutter.x, region.top + gutter.top, region.top + gutter.bottom
    for smaller in (
        Region(region.left, region.top, region.right, top),
        Region(region.left, top, x, bottom),
        Region(x, top, region.right, bottom),
        Region(region.left, bottom, region.right, region.bottom),
    ):
        if smaller.bottom > smaller.top:
            yield from _split(ink, smaller, page, depth + 1)


class _Gutter(NamedTuple):
    x: int
    top: int
    bottom: int


def _find_gutter(part: Image.Image, page: tuple[int, int]) -> _Gutter | None:
    for gutter in sorted(_white_strips(part, page), key=lambda strip: strip.top - strip.bottom):
        left = _lines(part.crop((0, gutter.top, gutter.x, gutter.bottom)))
        right = _lines(part.crop((gutter.x, gutter.top, part.width, gutter.bottom)))
        if _are_columns(left, right, page[0]):
            return gutter
    return None


def _white_strips(part: Image.Image, page: tuple[int, int]) -> list[_Gutter]:
    """The highest strip of each group of neighbouring strips that begin and end at about the same height."""
    height = max(round(_MIN_GUTTER_HEIGHT * page[1]), 1)
    margin = round(_MIN_COLUMN_WIDTH * page[0])
    # In the widened ink, the white left is the middle of gaps that are wide enough.
    widened = part.filter(ImageFilter.MaxFilter(_MIN_GUTTER_WIDTH)).transpose(Image.Transpose.TRANSPOSE)
    columns = widened.tobytes()
    pattern = re.compile(rb"\x00{%d,}" % height)
    groups: list[list[_Gutter]] = []
    bounds = part.getbbox()
    assert bounds is not None, "a part without ink is not split"
    for x in range(margin, part.width - margin):
        if not bounds[0] < x < bounds[2]:
            continue
        column = columns[x * part.height : (x + 1) * part.height]
        for run in pattern.finditer(column):
            strip = _Gutter(x, *run.span())
            for group in groups:
                last = group[-1]
                if last.x >= x - 1 and max(abs(last.top - strip.top), abs(last.bottom - strip.bottom)) <= height / 3:
                    group.append(strip)
                    break
            else:
                groups.append([strip])
    return [_middle_of_highest(group) for group in groups]


def _middle_of_highest(group: list[_Gutter]) -> _Gutter:
    highest = max(strip.bottom - strip.top for strip in group)
    high = [strip for strip in group if strip.bottom - strip.top >= 0.95 * highest]
    return high[len(high) // 2]


def _lines(column: Image.Image) -> list[_Line]:
    """The lines of text: groups of rows with ink that are not higher than text."""
    pixels, width = column.tobytes(), column.width
    has_ink = bytes(pixels.find(1, y * width, (y + 1) * width) >= 0 for y in range(column.height))
    lines = []
    for run in re.finditer(rb"\x01+", has_ink):
        top, bottom = run.span()
        box = column.crop((0, top, width, bottom)).getbbox()
        if box is not None and 2 <= bottom - top <= _MAX_LINE_HEIGHT:
            profile = column.crop((box[0], top, box[2], bottom))
            lines.append(_Line(top, bottom, box[0], box[2], _largest_gap(profile)))
    return lines


def _largest_gap(line: Image.Image) -> int:
    columns = line.transpose(Image.Transpose.TRANSPOSE).tobytes()
    height = line.height
    has_ink = bytes(columns.find(1, x * height, (x + 1) * height) >= 0 for x in range(line.width))
    return max((len(gap) for gap in re.findall(rb"\x00+", has_ink)), default=0)


def _are_columns(left: list[_Line], right: list[_Line], page_width: int) -> bool:
    left, right = ([line for line in lines if line.width >= _MIN_LINE_WIDTH * page_width] for lines in (left, right))
    if min(len(left), len(right)) < _MIN_SIDEBAR_LINES:
        return False
    shares = []
    for lines in (left, right):
        extent = max(line.right for line in lines) - min(line.left for line in lines)
        prose = [line for line in lines if _is_prose(line, extent, page_width)]
        shares.append(len(prose) / len(lines) if len(prose) >= _MIN_PROSE_LINES else 0.0)
    if min(shares) >= 0.3 and max(shares) >= 0.5:
        return True
    return max(shares) >= 0.6 and _level_share(left, right) <= _MAX_LEVEL_SHARE


def _is_prose(line: _Line, extent: int, page_width: int) -> bool:
    """Most of the column's width is filled, without gaps as between cells of a table."""
    return line.width >= max(0.6 * extent, 0.15 * page_width) and line.largest_gap <= _MIN_GUTTER_WIDTH + 2


def _level_share(left: list[_Line], right: list[_Line]) -> float:
    """The share of lines of the shorter side that are at the same height as one of the other side."""
    few, many = sorted((left, right), key=len)
    tolerance = statistics.median(line.bottom - line.top for line in many) / 4
    return sum(any(abs(one.middle - other.middle) <= tolerance for other in many) for one in few) / len(few)
