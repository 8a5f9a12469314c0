"""Word boxes of a page: where each word is on the page's image. Stored beside the page's text as `{n}.words.gz`.

Only pages with OCR have the file: the boxes of a text layer are computed from the PDF when they are needed
(`clerk.ocr.layer_words`), since nearly all pages are never looked at. The file belongs to the stored page image.

Format: UTF-8 text, compressed with gzip. The first line is `clerk-words 1 ROTATION SKEW PROPORTION`: the image is the
page as the PDF shows it, rotated clockwise by ROTATION degrees (a multiple of 90), then counter-clockwise about its
centre by SKEW degrees; PROPORTION is its height divided by its width. Every other line is a word, or is empty and
separates two lines of text:

    LEFT TOP WIDTH HEIGHT WORD

The numbers are whole 1/10000 of the image's width (LEFT, WIDTH) and height (TOP, HEIGHT), so they fit the image in any
size. LEFT counts from the right edge of the word before, TOP from its top; for the first word from the image's corner.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clerk.object_storage.path import StoragePath

SCALE = 10_000
"""Width and height of the image in the unit of the boxes."""
_HEADER = re.compile(r"clerk-words 1 (0|90|180|270) (-?\d{1,2}\.\d\d) (\d{1,4}\.\d{4})")
_WORD = re.compile(r"(-?\d{1,5}) (-?\d{1,5}) (\d{1,5}) (\d{1,5}) (\S{1,1000})")
_MAX_BYTES = 32 << 20
"""Of the uncompressed file: several times what a page with the maximum number of characters needs."""


class Word(NamedTuple):
    text: str
    """Without spaces."""
    left: int
    top: int
    right: int
    bottom: int


class WordBoxesInvalid(Exception):
    """The data are not word boxes in the format of this module."""


@dataclass(frozen=True)
class WordBoxes:
    """The words of one page in reading order, grouped in lines of text."""

    lines: Sequence[Sequence[Word]]
    rotation: int = 0
    skew: float = 0.0
    proportion: float = 1.0

    @property
    def words(self) -> list[Word]:
        return [word for line in self.lines for word in line]


def make_word(text: str, left: float, top: float, right: float, bottom: float, width: float, height: float) -> Word:
    """A word from coordinates on an image, or page, of this width and height. What is outside of it is cut off."""
    return Word(
        "".join(character for character in text if character.isprintable() and not character.isspace()),
        *(
            min(SCALE, max(0, round(value * SCALE / side)))
            for value, side in ((left, width), (top, height), (right, width), (bottom, height))
        ),
    )


def dumps(boxes: WordBoxes) -> str:
    right = top = 0
    rows = [f"clerk-words 1 {boxes.rotation} {boxes.skew:.2f} {boxes.proportion:.4f}"]
    for number, line in enumerate(boxes.lines):
        if number:
            rows.append("")
        for word in line:
            rows.append(
                f"{word.left - right} {word.top - top} {word.right - word.left} {word.bottom - word.top} {word.text}"
            )
            right, top = word.right, word.top
    return "\n".join(rows) + "\n"


def loads(text: str) -> WordBoxes:
    """Raises WordBoxesInvalid. The text may be untrusted: every box is within the image."""
    header, *rows = text.removesuffix("\n").split("\n")
    match = _HEADER.fullmatch(header)
    if match is None:
        raise WordBoxesInvalid(f"the first line is {header[:60]!r}")
    right = top = 0
    lines: list[list[Word]] = [[]]
    for row in rows:
        if not row:
            lines.append([])
            continue
        values = _WORD.fullmatch(row)
        if values is None or not values[5].isprintable():
            raise WordBoxesInvalid(f"a line is {row[:60]!r}")
        left, top = right + int(values[1]), top + int(values[2])
        right = left + int(values[3])
        word = Word(values[5], left, top, right, top + int(values[4]))
        if min(left, top) < 0 or max(right, word.bottom) > SCALE:
            raise WordBoxesInvalid(f"a box is outside of the image: {word[1:]}")
        lines[-1].append(word)
    return WordBoxes([line for line in lines if line], int(match[1]), float(match[2]), float(match[3]))


def compress(text: str) -> bytes:
    """The content of the file. The same text always has the same content."""
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def load(path: StoragePath) -> WordBoxes | None:
    """None if the file does not exist. Raises WordBoxesInvalid if it is damaged."""
    try:
        compressed = path.read_bytes()
    except FileNotFoundError:
        return None
    return parse(compressed)


def parse(compressed: bytes) -> WordBoxes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(compressed)) as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise WordBoxesInvalid(f"more than {_MAX_BYTES >> 20} MiB")
        return loads(content.decode())
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise WordBoxesInvalid(str(error)) from error


# --- from the stored image to the page as the PDF shows it


def page_point(boxes: WordBoxes, x: float, y: float) -> tuple[float, float]:
    """A point of the stored image (0 to SCALE) on the page, as shares of the page's width and height."""
    # About the centre, in units of the image's width.
    across, down = x / SCALE - 0.5, (y / SCALE - 0.5) * boxes.proportion
    angle = math.radians(boxes.skew)
    across, down = (
        across * math.cos(angle) - down * math.sin(angle),
        across * math.sin(angle) + down * math.cos(angle),
    )
    across, down = across + 0.5, down / boxes.proportion + 0.5
    turned = {0: (across, down), 90: (down, 1 - across), 180: (1 - across, 1 - down), 270: (1 - down, across)}
    return turned[boxes.rotation]


def page_word(boxes: WordBoxes, word: Word) -> Word:
    """The smallest box on the page that contains the word, parallel to its edges."""
    corners = [page_point(boxes, x, y) for x in (word.left, word.right) for y in (word.top, word.bottom)]
    across, down = zip(*corners, strict=True)
    return make_word(word.text, min(across), min(down), max(across), max(down), 1, 1)


def group_lines(words: Iterable[tuple[object, Word]]) -> list[list[Word]]:
    """Group consecutive words that have the same key. Words without text are left out."""
    lines: list[list[Word]] = []
    last: object = None
    for key, word in words:
        if not word.text:
            continue
        if not lines or key != last:
            lines.append([])
        lines[-1].append(word)
        last = key
    return lines
