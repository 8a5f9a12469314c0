"""Poppler: pdfinfo, pdftotext, pdfimages and pdftoppm. Asking what is installed is apart from running it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clerk.errors import ToolMissing
from clerk.ocr.sandbox import Completed, ToolFailed

PROGRAMS = ("pdfinfo", "pdftotext", "pdfimages", "pdftoppm")
_PAGES = re.compile(r"^Pages: +(\d+)", re.MULTILINE)
_SIZE = re.compile(r"^Page +(\d+) size: +(\S+) x (\S+) pts", re.MULTILINE)
_ROTATION = re.compile(r"^Page +(\d+) rot: +(\d+)", re.MULTILINE)


class Run(Protocol):
    """`limited.run` with limits, folder and environment filled in."""

    def __call__(self, *arguments: str | Path, cpu_seconds: float, stdout: Path | None = None) -> Completed: ...


class PasswordNeeded(ToolFailed):
    """The document opens only with a password."""


class Unreadable(ToolFailed):
    """Poppler does not find a document in the file."""


@dataclass(frozen=True)
class PdfInfo:
    """What pdfinfo says of a document."""

    page_count: int
    boxes: dict[int, Box]
    """Page → its box; a page without one is not there."""
    complaints: frozenset[str]
    """About the document as a whole: they come with every page, and say nothing about any."""


@dataclass(frozen=True)
class Box:
    """A page as it is shown: points, after the page's own rotation."""

    width: float
    height: float

    def pixels(self, dpi: float) -> float:
        return self.width * self.height * (dpi / 72) ** 2


def version() -> str:
    """Raises ToolMissing. Needs no limits: no document is read."""
    for program in PROGRAMS:
        try:
            done = subprocess.run([program, "-v"], capture_output=True, text=True, timeout=30, check=False)
        except FileNotFoundError as error:
            raise ToolMissing(f"{program} is not installed; on Debian: apt install poppler-utils") from error
    return done.stderr.splitlines()[0].rpartition(" ")[2]


def pdf_info(run: Run, pdf: Path, output: Path, last: int, cpu_seconds: float) -> PdfInfo:
    """The number of pages that poppler finds, and the boxes of those up to `last`."""
    ended = run("pdfinfo", "-f", "1", "-l", str(last), pdf, cpu_seconds=cpu_seconds, stdout=output)
    if "incorrect password" in ended.stderr.lower():
        raise PasswordNeeded("the document opens only with a password")
    said = output.read_text(errors="replace")
    pages = _PAGES.search(said)
    if pages is None:
        raise Unreadable(ended.complaint)
    rotations = {int(page): int(degrees) for page, degrees in _ROTATION.findall(said)}
    found = {}
    for page, width, height in _SIZE.findall(said):
        box = Box(float(width), float(height))
        if rotations.get(int(page), 0) % 180:
            box = Box(box.height, box.width)
        if box.width > 0 and box.height > 0:
            found[int(page)] = box
    return PdfInfo(int(pages[1]), found, frozenset(ended.stderr.splitlines()))


def errors(said: str, known: frozenset[str]) -> list[str]:
    """What is wrong with a page, from what was said while it was rendered: no warnings, nothing about the document."""
    return [line for line in said.splitlines() if line.strip() and line not in known and "Warning" not in line]


def text(run: Run, pdf: Path, first: int, last: int, output: Path, cpu_seconds: float) -> list[str] | None:
    """The text layer of pages `first` to `last`; None if it cannot be told which text is whose."""
    output.unlink(missing_ok=True)
    run("pdftotext", "-q", "-enc", "UTF-8", "-eol", "unix", "-f", str(first), "-l", str(last), pdf, output,
        cpu_seconds=cpu_seconds)  # fmt: skip
    if not output.exists():
        return None
    pages = output.read_text(encoding="utf-8", errors="replace").split("\f")
    if first == last:
        return ["\n".join(pages)]
    # A page that cannot be had has no form feed, and a font can map a glyph to one.
    return pages[:-1] if len(pages) == last - first + 2 else None


def image_coverage(run: Run, pdf: Path, page: int, box: Box, output: Path, cpu_seconds: float) -> float:
    """How much of the page its images cover, as drawn: all of it for a scan, in one piece or in strips."""
    run("pdfimages", "-list", "-f", str(page), "-l", str(page), pdf, cpu_seconds=cpu_seconds, stdout=output)
    covered = 0.0
    for line in output.read_text(errors="replace").splitlines()[2:]:
        cells = line.split()
        if len(cells) >= 14 and cells[2] in ("image", "stencil"):
            width, height, across, down = (float(cells[place]) for place in (3, 4, -4, -3))
            if across > 0 and down > 0:
                covered += width / across * height / down
    return covered / (box.width * box.height / 72**2)


def render(run: Run, pdf: Path, page: int, dpi: float, target: Path, cpu_seconds: float) -> Completed:
    """One page, its crop box, in grey, as `target` (.pgm). The caller checks what came out: exit codes lie."""
    assert target.suffix == ".pgm"
    target.unlink(missing_ok=True)
    return run("pdftoppm", "-gray", "-cropbox", "-r", f"{dpi:.3f}", "-f", str(page), "-l", str(page), "-singlefile",
               pdf, target.with_suffix(""), cpu_seconds=cpu_seconds)  # fmt: skip


def render_png(run: Run, pdf: Path, page: int, longest_side: int, target: Path, cpu_seconds: float) -> Completed:
    """One page as people see it, in colour, within a square of that many pixels, as `target` (.png). Check it, too."""
    assert target.suffix == ".png"
    target.unlink(missing_ok=True)
    return run("pdftoppm", "-png", "-cropbox", "-scale-to", str(longest_side), "-f", str(page), "-l", str(page),
               "-singlefile", pdf, target.with_suffix(""), cpu_seconds=cpu_seconds)  # fmt: skip
