"""Tesseract, as a process that stays for a document: what it costs to start is paid once, not once per page.

The process is `clerk.ocr.tesseract_server`, which has the library in it. A page that kills it, or takes too long, has
failed, and the next page gets a new one. Asking what is installed is apart from running it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from clerk.errors import ToolMissing
from clerk.ocr.sandbox import LineServer

LANGUAGES = re.compile(r"[A-Za-z_]{2,20}(?:\+[A-Za-z_]{2,20}){0,9}")
"""`eng`, `eng+spa`: names of models, joined. Nothing that a shell, a path or tesseract could take for more."""
DEFAULT_LANGUAGES = "eng"
PROCESS = "clerk.ocr.tesseract_server"
_USUAL_FOLDERS = (
    "usr/share/tesseract-ocr/*/tessdata",
    "usr/share/tessdata",
    "usr/share/tesseract/tessdata",
    "usr/local/share/tessdata",
    "opt/homebrew/share/tessdata",
)
_MODEL = "*.traineddata"


@dataclass(frozen=True)
class OcrResult:
    text: str
    confidence: float | None
    """Mean over words, weighted by length; None without words."""
    letters: int
    """In words that were recognised."""
    is_sideways: bool = False
    """The words stand upright: tesseract reads lines that run upwards, but whoever looks at the page must not."""

    @property
    def score(self) -> float:
        """For comparing readings of the same page: how much was read, times how surely."""
        return self.letters * ((self.confidence or 0.0) / 100) ** 2


@dataclass(frozen=True)
class Request:
    """What the process is asked, as a line of JSON."""

    what: str
    """`word_height`, `read` or `orientation`."""
    image: str
    dpi: int
    languages: str
    cpu_seconds: float


@dataclass(frozen=True)
class Response:
    """What it answers, likewise. `found` is what was asked for; without its models, `missing` says which."""

    found: Any
    missing: str | None
    cpu_seconds: float
    """That the process has used so far."""
    memory: int
    """Bytes that it has held at most so far."""


# --- what is installed


def installed_languages() -> frozenset[str]:
    return frozenset(model.stem for model in models().glob(_MODEL))


def models(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Path:
    """The folder with tesseract's models. Raises ToolMissing."""
    if given := environment.get("TESSDATA_PREFIX"):
        # Tesseract 3 wanted the folder above, and settings live long.
        candidates = [Path(given), Path(given) / "tessdata"]
    else:
        candidates = [folder for pattern in _USUAL_FOLDERS for folder in sorted(root.glob(pattern), reverse=True)]
    for folder in candidates:
        if any(folder.glob(_MODEL)):
            return folder
    if not given and (told := _told_by_tesseract(environment)):
        return told
    where = f"in TESSDATA_PREFIX={given}" if given else "in the usual folders"
    raise ToolMissing(
        f"tesseract's models are not found {where}; on Debian: apt install tesseract-ocr,"
        " on a Mac: brew install tesseract, elsewhere set TESSDATA_PREFIX to their folder"
    )


def _told_by_tesseract(environment: Mapping[str, str]) -> Path | None:
    """The program, where there is one, names the folder that it was built for."""
    ask = ["tesseract", "--list-langs"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=False, env=dict(environment))
    except FileNotFoundError:
        return None
    quoted = re.search(r'"(.+)"', (done.stdout or done.stderr).partition("\n")[0])
    return Path(quoted[1]) if quoted and any(Path(quoted[1]).glob(_MODEL)) else None


# --- running it


class Start(Protocol):
    """`limited.Conversation` with limits, folder and environment filled in."""

    def __call__(self, name: str, *arguments: str | Path) -> LineServer: ...


class Tesseract:
    """One for a document. Not for two threads."""

    def __init__(self, start: Start, resting_memory: int) -> None:
        self.start = start
        self.resting_memory = resting_memory
        """A process that has ever held more than this is not kept while others work."""
        self.process: LineServer | None = None
        self.cpu_seconds = 0.0
        """Of the process that is there now; those that are gone are in the usage of children."""

    def word_height(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> float | None:
        """Median, in pixels, over words long enough to tell; None without any. What was found out on the way
        is used if the same image is read next: asking costs nothing then."""
        found = self._ask("word_height", image, dpi, languages, cpu_seconds)
        return None if found is None else float(found)

    def read(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> OcrResult:
        return OcrResult(**self._ask("read", image, dpi, languages, cpu_seconds))

    def orientation(self, image: Path, dpi: float, cpu_seconds: float) -> tuple[int, float]:
        """By how many degrees, clockwise, the image must be turned to be upright, and how sure that is (above 1:
        fairly). (0, 0.0) where tesseract cannot tell, as on a page with few letters."""
        degrees, sure = self._ask("orientation", image, dpi, "osd", cpu_seconds)
        return int(degrees), float(sure)

    def close(self) -> None:
        if self.process is not None:
            self.process.end()
        self.process, self.cpu_seconds = None, 0.0

    def _ask(self, what: str, image: Path, dpi: float, languages: str, cpu_seconds: float) -> Any:
        if self.process is not None and self.process.is_gone:
            # Whoever killed it while it rested: this image had no part in it.
            self.close()
        if self.process is None:
            command = [sys.executable, "-s", "-S", "-m", PROCESS]
            self.process = self.start("tesseract", *command, models())
        question = Request(what, str(image), round(dpi), languages, cpu_seconds)
        answer: Response | None = None
        try:
            said = self.process.ask(json.dumps(asdict(question)).encode(), cpu_seconds, self.cpu_seconds)
            answer = Response(**json.loads(said))
        finally:
            if answer is None:
                self.close()
        self.cpu_seconds = answer.cpu_seconds
        if answer.memory > self.resting_memory:
            self.close()
        if answer.missing:
            raise ToolMissing(f"tesseract has no model for {answer.missing}; on Debian: apt install tesseract-ocr-…")
        return answer.found
