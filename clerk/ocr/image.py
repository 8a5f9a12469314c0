"""A rendered page: checked, turned, straightened, kept. Works on files of our own renderer, never on a document's."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

_FAINT = 32
"""A page whose darkest and lightest pixel are closer than this is blank."""
_GREYS = 4
_STEEPEST = 15.0
_SMALL = 500


def size(path: Path) -> tuple[int, int] | None:
    """Width and height of a complete grey image; None if it is not one."""
    try:
        with path.open("rb") as file:
            fields = file.readline().split() + file.readline().split() + file.readline().split()
            header = file.tell()
        kind, width, height, greys = fields
        if kind != b"P5" or greys != b"255":
            return None
        complete = path.stat().st_size == header + int(width) * int(height)
    except (OSError, ValueError):
        return None
    return (int(width), int(height)) if complete else None


def is_blank(path: Path) -> bool:
    with Image.open(path) as image:
        darkest, lightest = _extrema(image)
        return lightest - darkest < _FAINT


def _extrema(image: Image.Image) -> tuple[int, int]:
    darkest, lightest = image.getextrema()
    assert isinstance(darkest, int)
    assert isinstance(lightest, int)
    return darkest, lightest


def rotate(source: Path, degrees: int, target: Path) -> None:
    """By a right angle or two, clockwise."""
    ways = {90: Image.Transpose.ROTATE_270, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_90}
    with Image.open(source) as image:
        image.transpose(ways[degrees]).save(target)


def deskew(source: Path, degrees: float, target: Path) -> None:
    with Image.open(source) as image:
        image.rotate(degrees, resample=Image.Resampling.BICUBIC, fillcolor=255).save(target)


def skew(path: Path) -> float:
    """By how many degrees, counter-clockwise, the page must be turned for its lines to lie level.

    Level lines make the darkness of pixel rows vary most. Looked for on a small copy, coarsely, then finely.
    """
    with Image.open(path) as image:
        small = image.convert("L")
        small.thumbnail((2 * _SMALL, 2 * _SMALL))
    small = small.point([255 - value for value in range(256)])
    best = max(_steps(-_STEEPEST, _STEEPEST, 1.0), key=lambda angle: _unevenness(small, angle))
    return max(_steps(best - 0.8, best + 0.8, 0.2), key=lambda angle: _unevenness(small, angle))


def _steps(first: float, last: float, step: float) -> Sequence[float]:
    return [round(first + step * number, 3) for number in range(round((last - first) / step) + 1)]


def _unevenness(image: Image.Image, angle: float) -> float:
    turned = image.rotate(angle, resample=Image.Resampling.NEAREST, fillcolor=0)
    rows = turned.resize((1, turned.height), resample=Image.Resampling.BOX).tobytes()
    # The difference from row to row, not the spread over the page: a dark picture must not outweigh the lines.
    return float(sum((one - other) ** 2 for one, other in itertools.pairwise(rows)))


def save_png(source: Path, target: Path) -> None:
    """For readers: a PNG in four greys, a third of the time and of the bytes of all 256."""
    step = 255 // (_GREYS - 1)
    with Image.open(source) as image:
        reduced = image.convert("L").point([min(_GREYS - 1, (value + step // 2) // step) for value in range(256)])
    reduced.putpalette([level * step for level in range(_GREYS) for _ in "rgb"])
    reduced.save(target, format="PNG", bits=2, compress_level=6)
