"""Tesseract, called directly: what pytesseract adds is a start of Python's own machinery per page.

Text and word confidences come from one run. Asking what is installed is apart from running it.
"""

from __future__ import annotations

import re
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from clerk.exec.limited import Crashed, ToolMissing
from clerk.exec.poppler import Run

LANGUAGES = re.compile(r"[A-Za-z_]{2,20}(?:\+[A-Za-z_]{2,20}){0,9}")
"""`eng`, `eng+spa`: names of models, joined. Nothing that a shell, a path or tesseract could take for more."""
_WORD = "5"
_ROTATE = re.compile(r"^Rotate: (\d+)", re.MULTILINE)
_SURE = re.compile(r"^Orientation confidence: ([\d.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Reading:
    text: str
    confidence: float | None
    """Mean over words, weighted by length; None without words."""
    letters: int
    """In words that were recognised."""
    is_sideways: bool = False
    """The words stand upright: tesseract reads lines that run upwards, but whoever looks at the page must not."""
    word_height: float | None = None
    """Median, in pixels, over words long enough to tell."""

    @property
    def score(self) -> float:
        """For comparing readings of the same page: how much was read, times how surely."""
        return self.letters * ((self.confidence or 0.0) / 100) ** 2


def version() -> str:
    return _ask("--version").splitlines()[0].partition(" ")[2]


def installed_languages() -> frozenset[str]:
    return frozenset(line.strip() for line in _ask("--list-langs").splitlines()[1:])


def _ask(question: str) -> str:
    try:
        done = subprocess.run(["tesseract", question], capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError as error:
        raise ToolMissing("tesseract is not installed; on Debian: apt install tesseract-ocr") from error
    return done.stdout or done.stderr


def read(run: Run, image: Path, dpi: float, languages: str, cpu_seconds: float) -> Reading:
    base = image.with_suffix(".read")
    text, words = image.with_suffix(".read.txt"), image.with_suffix(".read.tsv")
    try:
        ended = run("tesseract", image, base, "-l", languages, "--dpi", str(round(dpi)), "txt", "tsv",
                    cpu_seconds=cpu_seconds)  # fmt: skip
        if "error opening data file" in ended.stderr.lower() or "failed loading language" in ended.stderr.lower():
            raise ToolMissing(f"tesseract has no model for {languages}; on Debian: apt install tesseract-ocr-…")
        if ended.code != 0 or not text.exists() or not words.exists():
            raise Crashed(f"tesseract failed with {ended.code} ({ended.complaint})")
        return _reading(text.read_text(errors="replace"), words.read_text(errors="replace"))
    finally:
        text.unlink(missing_ok=True)
        words.unlink(missing_ok=True)


def _reading(text: str, words: str) -> Reading:
    letters = 0
    sum_of_confidence = 0.0
    upright = lying = 0
    heights = []
    for line in words.splitlines()[1:]:
        cells = line.split("\t")
        if len(cells) == 12 and cells[0] == _WORD:
            length = sum(character.isalnum() for character in cells[11])
            letters += length
            sum_of_confidence += length * float(cells[10])
            if length >= 4:
                width, height = int(cells[8]), int(cells[9])
                lying += width > height
                upright += height > width
                heights.append(height)
    confidence = sum_of_confidence / letters if letters else None
    return Reading(text, confidence, letters, upright > lying, statistics.median(heights) if heights else None)


def orientation(run: Run, image: Path, dpi: float, cpu_seconds: float) -> tuple[int, float]:
    """By how many degrees, clockwise, the image must be turned to be upright, and how sure that is (above 1: fairly).

    (0, 0.0) where tesseract cannot tell, as on a page with few letters.
    """
    base = image.with_suffix(".osd")
    found = image.with_suffix(".osd.osd")
    try:
        run("tesseract", image, base, "-l", "osd", "--psm", "0", "--dpi", str(round(dpi)), cpu_seconds=cpu_seconds)
        said = found.read_text(errors="replace") if found.exists() else ""
    finally:
        found.unlink(missing_ok=True)
    rotate, sure = _ROTATE.search(said), _SURE.search(said)
    return (int(rotate[1]) % 360, float(sure[1])) if rotate and sure else (0, 0.0)
