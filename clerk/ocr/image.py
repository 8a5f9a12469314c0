"""Operations on images of rendered pages: check, rotate, deskew, save as PNG. Never used on files from a document."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

_MIN_CONTRAST = 32
"""A page is blank if the difference between its darkest and its lightest pixel is smaller than this."""
_GREYS = 4
_MAX_SKEW = 15.0
"""Degrees."""
_MIN_SKEW = 1.0
"""Degrees. Tesseract reads lines that are skewed less."""
_CLEAR_CONTRAST = 1.3
"""The contrast between rows must be this much higher at the angle than without rotation."""
_SHARP_CONTRAST = 1.5
"""If the contrast is this much higher than at 2 degrees to both sides, the lines are horizontal."""
_SKEW_IMAGE_SIDE = 1000
_COARSE_SKEW_IMAGE_SIDE = 500


def size(path: Path) -> tuple[int, int] | None:
    """Width and height of a grey PGM image; None if the file is not a complete one."""
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
        return lightest - darkest < _MIN_CONTRAST


def _extrema(image: Image.Image) -> tuple[int, int]:
    darkest, lightest = image.getextrema()
    assert isinstance(darkest, int)
    assert isinstance(lightest, int)
    return darkest, lightest


def ink(path: Path) -> float:
    """The share of the image that is ink: 0 for a white one, 1 for a black one."""
    with Image.open(path) as image:
        histogram = image.convert("L").histogram()
    return sum((255 - value) * count for value, count in enumerate(histogram)) / (255 * sum(histogram))


def crop(source: Path, box: tuple[int, int, int, int], target: Path) -> None:
    with Image.open(source) as image:
        image.crop(box).save(target)


def rotate(source: Path, degrees: int, target: Path) -> None:
    """Rotate clockwise by 90, 180 or 270 degrees."""
    transpositions = {90: Image.Transpose.ROTATE_270, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_90}
    with Image.open(source) as image:
        image.transpose(transpositions[degrees]).save(target)


def deskew(source: Path, degrees: float, target: Path) -> None:
    with Image.open(source) as image:
        image.rotate(degrees, resample=Image.Resampling.BICUBIC, fillcolor=255).save(target)


def skew(path: Path) -> float:
    """The angle in degrees, counter-clockwise, by which the page must be rotated to make its lines horizontal.

    0 if the lines are horizontal to within a degree, or if there are no lines. With horizontal lines the brightness
    differs most from pixel row to pixel row. The search uses small copies: first coarse steps, then fine ones.
    """
    with Image.open(path) as image:
        # Reduced first: a copy of the whole image would need much memory.
        medium = image.reduce(max(1, max(image.size) // _SKEW_IMAGE_SIDE))
    medium.thumbnail((_SKEW_IMAGE_SIDE, _SKEW_IMAGE_SIDE), resample=Image.Resampling.BOX)
    medium = medium.point([255 - value for value in range(256)])
    small = medium.copy()
    small.thumbnail((_COARSE_SKEW_IMAGE_SIDE, _COARSE_SKEW_IMAGE_SIDE), resample=Image.Resampling.BOX)
    straight = _row_contrast(small, 0.0)
    if straight > _SHARP_CONTRAST * max(_row_contrast(small, -2.0), _row_contrast(small, 2.0)):
        return 0.0
    contrasts = {angle: _row_contrast(small, angle) for angle in _steps(-_MAX_SKEW, _MAX_SKEW, 1.0)}
    best = max(contrasts, key=lambda angle: contrasts[angle])
    if abs(best) < _MIN_SKEW or contrasts[best] <= _CLEAR_CONTRAST * straight:
        return 0.0
    return max(_steps(best - 0.8, best + 0.8, 0.2), key=lambda angle: _row_contrast(medium, angle))


def _steps(first: float, last: float, step: float) -> Sequence[float]:
    return [round(first + step * number, 3) for number in range(round((last - first) / step) + 1)]


def _row_contrast(image: Image.Image, angle: float) -> float:
    rotated = image.rotate(angle, resample=Image.Resampling.NEAREST, fillcolor=0)
    rows = rotated.resize((1, rotated.height), resample=Image.Resampling.BOX).tobytes()
    # The difference between neighbouring rows, not the variance: a dark picture must not outweigh the lines of text.
    return float(sum((upper - lower) ** 2 for upper, lower in itertools.pairwise(rows)))


def save_png(source: Path, target: Path) -> None:
    """Save as a PNG with four greys, which takes a third of the time and space of 256 greys."""
    step = 255 // (_GREYS - 1)
    with Image.open(source) as image:
        reduced = image.convert("L").point([min(_GREYS - 1, (value + step // 2) // step) for value in range(256)])
    reduced.putpalette([level * step for level in range(_GREYS) for _ in "rgb"])
    reduced.save(target, format="PNG", bits=2, compress_level=4)
