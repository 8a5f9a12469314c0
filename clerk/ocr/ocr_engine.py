"""OCR engine: the interface `Engine`, the base class `OcrEngine` with poppler, and how programs run in the sandbox.

An engine is used for one document, in the reader process, and may raise any ToolFailed. Those that clerk has are in
`clerk.ocr.tesseract_engines`.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from clerk import host
from clerk.ocr import poppler, sandbox
from clerk.ocr.poppler import Box
from clerk.ocr.sandbox import Limits, LineServer
from clerk.ocr.tesseract import OcrResult, Start
from clerk.plugins.folder import MODULE_PREFIX, import_file


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


@dataclass(frozen=True)
class Tools:
    """What an engine gets for one document."""

    pdf: Path
    scratch: Path
    """The only folder that can be written to."""
    run: poppler.ToolRunner
    """Runs a program in the sandbox."""
    start: Start
    """Starts a process in the sandbox that answers requests."""
    idle_memory: int
    """Bytes that such a process may use while it waits."""


class OcrEngine:
    """Base of engines: poppler for text layers and images. A derived class must implement `recognize`."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    @classmethod
    def require_installed(cls) -> None:
        """Raise ToolMissing if a program or model is not installed on this machine. Called when a worker starts."""
        poppler.version()

    @classmethod
    def missing_languages(cls, languages: str) -> frozenset[str]:
        """Those of the site's languages (`eng+spa`) that the engine does not know."""
        return frozenset()

    @property
    def cpu_seconds(self) -> float:
        return 0.0

    def text_layer(self, first: int, last: int, cpu_seconds: float) -> list[str] | None:
        output = self.tools.scratch / "layer.txt"
        return poppler.text(self.tools.run, self.tools.pdf, first, last, output, cpu_seconds)

    def image_coverages(self, first: int, last: int, boxes: Mapping[int, Box], cpu_seconds: float) -> dict[int, float]:
        output = self.tools.scratch / "images.txt"
        return poppler.image_coverages(self.tools.run, self.tools.pdf, first, last, boxes, output, cpu_seconds)

    def thumbnails(self, first: int, last: int, longest_side: int, cpu_seconds: float) -> tuple[dict[int, Path], str]:
        return poppler.thumbnails(
            self.tools.run, self.tools.pdf, first, last, longest_side, self.tools.scratch, cpu_seconds
        )

    def render(self, page: int, dpi: float, image: Path, cpu_seconds: float) -> str:
        return poppler.render(self.tools.run, self.tools.pdf, page, dpi, image, cpu_seconds).stderr

    def word_height(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> float | None:
        return None

    def recognize(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> OcrResult:
        raise NotImplementedError

    def orientation(self, image: Path, dpi: float, cpu_seconds: float) -> tuple[int, float]:
        return 0, 0.0

    def close(self) -> None:
        """Nothing is running."""


@dataclass(frozen=True)
class EngineReference:
    """Where the reader process imports an engine's class from: it loads no plugins."""

    module: str
    name: str
    file: str | None = None
    """The file of a plugin in CLERK_PLUGINS_DIR, which cannot be imported by name."""

    @classmethod
    def of(cls, engine: type[OcrEngine]) -> EngineReference:
        package = engine.__module__.partition(".")[0]
        file = sys.modules[package].__file__ if package.startswith(MODULE_PREFIX) else None
        return cls(engine.__module__, engine.__qualname__, file)

    def load(self) -> type[OcrEngine]:
        if self.file is not None:
            import_file(Path(self.file))
        engine: type[OcrEngine] = getattr(importlib.import_module(self.module), self.name)
        return engine


TESSEROCR = EngineReference("clerk.ocr.tesseract_engines", "TesserocrEngine")


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
    limits: Limits,
    cpu_seconds: float,
    scratch: Path,
    parent_pipe: int | None,
    /,
    name: str,
    *arguments: str | Path,
    runs_programs: bool = False,
) -> LineServer:
    variables = {**environment(scratch), **import_path()}
    limits = replace(limits, runs_programs=runs_programs)
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
