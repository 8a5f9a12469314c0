"""OCR engine: the interface `Engine`, and its implementation with poppler and tesseract.

An engine is used for one document, in the reader process, and may raise any ToolFailed.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from clerk import host
from clerk.ocr import poppler, sandbox
from clerk.ocr.poppler import Box
from clerk.ocr.sandbox import Limits, LineServer
from clerk.ocr.tesseract import OcrResult, Start, Tesseract


class Engine(Protocol):
    """All times are CPU seconds; `image` is a grey .pgm file in the scratch folder."""

    @property
    def cpu_seconds(self) -> float:
        """CPU time used by processes of the engine that are still running."""

    def text_layer(self, first: int, last: int, cpu_seconds: float) -> list[str] | None:
        """The text layers of pages `first` to `last`; None if they cannot be told apart."""

    def image_coverages(self, first: int, last: int, boxes: Mapping[int, Box], cpu_seconds: float) -> dict[int, float]:
        """The share of each page with images that they cover; more than 1 if they overlap."""

    def thumbnails(self, first: int, last: int, longest_side: int, cpu_seconds: float) -> tuple[dict[int, Path], str]:
        """Small grey images of the pages, and the renderer's error output. An image may be missing."""

    def render(self, page: int, dpi: float, image: Path, cpu_seconds: float) -> str:
        """Write `image`, and return the renderer's error output. The caller must check the image."""

    def word_height(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> float | None:
        """The median height of words in pixels, without recognition; None if unknown."""

    def recognize(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> OcrResult: ...

    def orientation(self, image: Path, dpi: float, cpu_seconds: float) -> tuple[int, float]:
        """The clockwise rotation in degrees that makes the image upright, and the confidence."""

    def close(self) -> None:
        """End processes that are still running."""


class PopplerAndTesseract:
    def __init__(self, pdf: Path, run: poppler.ToolRunner, tesseract: Tesseract, scratch: Path) -> None:
        self.pdf = pdf
        self.run = run
        self.scratch = scratch
        self.tesseract = tesseract
        self.word_height = tesseract.word_height
        self.recognize = tesseract.recognize
        self.orientation = tesseract.orientation
        self.close = tesseract.close

    @property
    def cpu_seconds(self) -> float:
        return self.tesseract.cpu_seconds

    def text_layer(self, first: int, last: int, cpu_seconds: float) -> list[str] | None:
        return poppler.text(self.run, self.pdf, first, last, self.scratch / "layer.txt", cpu_seconds)

    def image_coverages(self, first: int, last: int, boxes: Mapping[int, Box], cpu_seconds: float) -> dict[int, float]:
        output = self.scratch / "images.txt"
        return poppler.image_coverages(self.run, self.pdf, first, last, boxes, output, cpu_seconds)

    def thumbnails(self, first: int, last: int, longest_side: int, cpu_seconds: float) -> tuple[dict[int, Path], str]:
        return poppler.thumbnails(self.run, self.pdf, first, last, longest_side, self.scratch, cpu_seconds)

    def render(self, page: int, dpi: float, image: Path, cpu_seconds: float) -> str:
        return poppler.render(self.run, self.pdf, page, dpi, image, cpu_seconds).stderr


def limited_runner(limits: Limits, scratch: Path, parent_pipe: int | None) -> poppler.ToolRunner:
    """Build a function that runs a program in the sandbox and waits for it."""
    return functools.partial(_run, limits, scratch, parent_pipe)


def _run(
    limits: Limits,
    scratch: Path,
    parent_pipe: int | None,
    /,
    *arguments: str | Path,
    cpu_seconds: float,
    stdout: Path | None = None,
) -> sandbox.Completed:
    try:
        return sandbox.run(arguments, limits, cpu_seconds, scratch, environment(scratch), parent_pipe, stdout)
    finally:
        # Whatever the program reports: its output may be incomplete, and the document is not the cause.
        host.require_free_space(scratch)


def limited_server(limits: Limits, cpu_seconds: float, scratch: Path, parent_pipe: int | None) -> Start:
    """Build a function that starts a LineServer in the sandbox; it is a Python program that can import clerk."""
    return functools.partial(_start, limits, cpu_seconds, scratch, parent_pipe)


def _start(
    limits: Limits, cpu_seconds: float, scratch: Path, parent_pipe: int | None, /, name: str, *arguments: str | Path
) -> LineServer:
    variables = {**environment(scratch), **import_path()}
    return LineServer(name, arguments, limits, cpu_seconds, scratch, variables, parent_pipe)


def environment(scratch: Path, source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A minimal environment without secrets: no database URL, no keys."""
    inherited = {name: source[name] for name in ("PATH", "TESSDATA_PREFIX") if name in source}
    return {
        **inherited,
        "LANG": "C.UTF-8",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        # More threads make one page hardly faster and, with several workers, all pages together much slower.
        "OMP_THREAD_LIMIT": "1",
    }


def import_path() -> dict[str, str]:
    """PYTHONPATH for a Python process with the minimal environment: clerk and the packages it needs."""
    root = str(Path(__file__).parents[2])
    folders = [root, *(path for path in sys.path if path and path != root and Path(path).is_dir())]
    return {"PYTHONPATH": os.pathsep.join(folders)}
