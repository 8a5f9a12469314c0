"""What turns a page into an image and an image into text: a small interface, and poppler with tesseract behind it.

An engine lives for one document, inside the reading child, and may raise any ToolFailed. Another one needs what is
in `Engine`, and nothing else.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from clerk.ocr import poppler, sandbox
from clerk.ocr.poppler import Box
from clerk.ocr.sandbox import Limits, LineServer
from clerk.ocr.tesseract import OcrResult, Start, Tesseract


class Engine(Protocol):
    """All times are CPU seconds; `image` is a grey .pgm file in the scratch folder."""

    @property
    def cpu_seconds(self) -> float:
        """Used by what it runs and has not ended."""

    def text_layer(self, first: int, last: int, cpu_seconds: float) -> list[str] | None:
        """Of each page from `first` to `last`; None if it cannot be told which text is whose."""

    def share_of_images(self, page: int, box: Box, cpu_seconds: float) -> float:
        """How much of the page is covered by images, 0 to 1 or more."""

    def render(self, page: int, dpi: float, image: Path, cpu_seconds: float) -> str:
        """Write `image`; returns what was complained of on the way. The caller checks the image."""

    def word_height(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> float | None:
        """Of the usual word, in pixels, without reading any; None if there are none, or it cannot be told cheaply."""

    def read(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> OcrResult: ...

    def orientation(self, image: Path, dpi: float, cpu_seconds: float) -> tuple[int, float]:
        """Degrees clockwise by which the image must be turned, and how sure that is."""

    def close(self) -> None:
        """End what still runs."""


class PopplerAndTesseract:
    def __init__(self, pdf: Path, run: poppler.Run, tesseract: Tesseract, scratch: Path) -> None:
        self.pdf = pdf
        self.run = run
        self.scratch = scratch
        self.tesseract = tesseract
        self.word_height = tesseract.word_height
        self.read = tesseract.read
        self.orientation = tesseract.orientation
        self.close = tesseract.close

    @property
    def cpu_seconds(self) -> float:
        return self.tesseract.cpu_seconds

    def text_layer(self, first: int, last: int, cpu_seconds: float) -> list[str] | None:
        return poppler.text(self.run, self.pdf, first, last, self.scratch / "layer.txt", cpu_seconds)

    def share_of_images(self, page: int, box: Box, cpu_seconds: float) -> float:
        return poppler.image_coverage(self.run, self.pdf, page, box, self.scratch / "images.txt", cpu_seconds)

    def render(self, page: int, dpi: float, image: Path, cpu_seconds: float) -> str:
        return poppler.render(self.run, self.pdf, page, dpi, image, cpu_seconds).stderr


def limited_runner(limits: Limits, scratch: Path, lifeline: int | None) -> poppler.Run:
    """Programs that are run to their end."""
    return functools.partial(_run, limits, scratch, lifeline)


def _run(
    limits: Limits,
    scratch: Path,
    lifeline: int | None,
    /,
    *arguments: str | Path,
    cpu_seconds: float,
    stdout: Path | None = None,
) -> sandbox.Completed:
    return sandbox.run(arguments, limits, cpu_seconds, scratch, environment(scratch), lifeline, stdout)


def limited_server(limits: Limits, cpu_seconds: float, scratch: Path, lifeline: int | None) -> Start:
    """Programs that stay and are asked; in Python, with clerk to import."""
    return functools.partial(_start, limits, cpu_seconds, scratch, lifeline)


def _start(
    limits: Limits, cpu_seconds: float, scratch: Path, lifeline: int | None, /, name: str, *arguments: str | Path
) -> LineServer:
    given = {**environment(scratch), **import_path()}
    return LineServer(name, arguments, limits, cpu_seconds, scratch, given, lifeline)


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


def import_path() -> dict[str, str]:
    """Where clerk and what it needs are found, for a Python whose environment has nothing else of this one's."""
    root = str(Path(__file__).parents[2])
    folders = [root, *(path for path in sys.path if path and path != root and Path(path).is_dir())]
    return {"PYTHONPATH": os.pathsep.join(folders)}
