"""What turns a page into an image and an image into text: a small interface, and poppler with tesseract behind it.

An engine lives for one document, inside the reading child, and may raise any ToolFailed. Another one, in process
for instance, needs these five methods and nothing else.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from clerk.exec import limited, poppler, tesseract
from clerk.exec.limited import Limits
from clerk.exec.poppler import Box
from clerk.exec.tesseract import Reading


class Engine(Protocol):
    """All times are CPU seconds; `image` is a grey .pgm file in the scratch folder."""

    def text_layer(self, first: int, last: int, cpu_seconds: float) -> list[str] | None:
        """Of each page from `first` to `last`; None if it cannot be told which text is whose."""

    def share_of_images(self, page: int, box: Box, cpu_seconds: float) -> float:
        """How much of the page is covered by images, 0 to 1 or more."""

    def render(self, page: int, dpi: float, image: Path, cpu_seconds: float) -> str:
        """Write `image`; returns what was complained of on the way. The caller checks the image."""

    def read(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> Reading: ...

    def orientation(self, image: Path, dpi: float, cpu_seconds: float) -> tuple[int, float]:
        """Degrees clockwise by which the image must be turned, and how sure that is."""


class PopplerAndTesseract:
    def __init__(self, pdf: Path, run: poppler.Run, scratch: Path) -> None:
        self.pdf = pdf
        self.run = run
        self.scratch = scratch

    def text_layer(self, first: int, last: int, cpu_seconds: float) -> list[str] | None:
        return poppler.text(self.run, self.pdf, first, last, self.scratch / "layer.txt", cpu_seconds)

    def share_of_images(self, page: int, box: Box, cpu_seconds: float) -> float:
        return poppler.share_of_images(self.run, self.pdf, page, box, self.scratch / "images.txt", cpu_seconds)

    def render(self, page: int, dpi: float, image: Path, cpu_seconds: float) -> str:
        return poppler.render(self.run, self.pdf, page, dpi, image, cpu_seconds).stderr

    def read(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> Reading:
        return tesseract.read(self.run, image, dpi, languages, cpu_seconds)

    def orientation(self, image: Path, dpi: float, cpu_seconds: float) -> tuple[int, float]:
        return tesseract.orientation(self.run, image, dpi, cpu_seconds)


def tools(limits: Limits, scratch: Path, lifeline: int | None) -> poppler.Run:
    return functools.partial(_run, limits, scratch, lifeline)


def _run(
    limits: Limits,
    scratch: Path,
    lifeline: int | None,
    /,
    *arguments: str | Path,
    cpu_seconds: float,
    stdout: Path | None = None,
) -> limited.Ended:
    return limited.run(arguments, limits, cpu_seconds, scratch, environment(scratch), lifeline, stdout)


def environment(scratch: Path, given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The little that programs need, and nothing that they could give away: no database URL, no keys."""
    kept = {name: given[name] for name in ("PATH", "TESSDATA_PREFIX") if name in given}
    return {
        **kept,
        "LANG": "C.UTF-8",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        # More threads make one page hardly faster and all pages together much slower.
        "OMP_THREAD_LIMIT": "1",
    }
