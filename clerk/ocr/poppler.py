"""Poppler's programs: pdfinfo, pdftotext, pdfimages and pdftoppm."""

from __future__ import annotations

import html
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clerk.documents.word_boxes import Word, make_word
from clerk.errors import ToolMissing
from clerk.ocr.sandbox import Completed, ToolFailed

PROGRAMS = ("pdfinfo", "pdftotext", "pdfimages", "pdftoppm")
_PAGES = re.compile(r"^Pages: +(\d+)", re.MULTILINE)
_SIZE = re.compile(r"^Page +(\d+) size: +(\S+) x (\S+) pts", re.MULTILINE)
_MESSAGE_PREFIX = re.compile(r"^[\w/ ]+ (?:Error|Warning)(?: \(\d+\))?: ")
_LINE_OR_WORD = re.compile(
    r'<line |<word xMin="(?P<left>[-\d.]+)" yMin="(?P<top>[-\d.]+)"'
    r' xMax="(?P<right>[-\d.]+)" yMax="(?P<bottom>[-\d.]+)">(?P<text>[^<]*)</word>'
)
_ROTATION = re.compile(r"^Page +(\d+) rot: +(\d+)", re.MULTILINE)


class ToolRunner(Protocol):
    """`sandbox.run` with limits, folder and environment already given."""

    def __call__(self, *arguments: str | Path, cpu_seconds: float, stdout: Path | None = None) -> Completed: ...


class PasswordNeeded(ToolFailed):
    """The document opens only with a password."""


class Unreadable(ToolFailed):
    """Poppler cannot open the file as a PDF."""


@dataclass(frozen=True)
class PdfInfo:
    """Output of pdfinfo."""

    page_count: int
    boxes: dict[int, Box]
    """Page number → page box. Poppler cannot find a page that is not in here."""
    document_messages: frozenset[str]
    """Messages about the document as a whole; they are repeated for every page."""


@dataclass(frozen=True)
class Box:
    """The size of a page in points, after the rotation that the page declares."""

    width: float
    height: float

    def pixels(self, dpi: float) -> float:
        return self.width * self.height * (dpi / 72) ** 2


def version() -> str:
    """Poppler's version. Raises ToolMissing if one of its programs is not installed."""
    for program in PROGRAMS:
        try:
            completed = subprocess.run([program, "-v"], capture_output=True, text=True, timeout=30, check=False)
        except FileNotFoundError as error:
            raise ToolMissing(f"{program} is not installed; on Debian: apt install poppler-utils") from error
    return completed.stderr.splitlines()[0].rpartition(" ")[2]


def pdf_info(run: ToolRunner, pdf: Path, output: Path, last: int, cpu_seconds: float, first: int = 1) -> PdfInfo:
    """The number of pages, and the boxes of the pages `first` to `last`."""
    completed = run("pdfinfo", "-f", str(first), "-l", str(last), pdf, cpu_seconds=cpu_seconds, stdout=output)
    if "incorrect password" in completed.stderr.lower():
        raise PasswordNeeded("the document opens only with a password")
    info = output.read_text(errors="replace")
    pages = _PAGES.search(info)
    if pages is None:
        raise Unreadable(describe_message(completed.last_message))
    rotations = {int(page): int(degrees) for page, degrees in _ROTATION.findall(info)}
    boxes = {}
    for page, width, height in _SIZE.findall(info):
        box = Box(float(width), float(height))
        if rotations.get(int(page), 0) % 180:
            box = Box(box.height, box.width)
        if box.width > 0 and box.height > 0:
            boxes[int(page)] = box
    return PdfInfo(int(pages[1]), boxes, frozenset(completed.stderr.splitlines()))


def describe_message(message: str) -> str:
    """A message of poppler's programs without the parts that mean nothing to users."""
    if "Wrong page range" in message:
        return "poppler finds none"
    return f"poppler: {_MESSAGE_PREFIX.sub('', message)[:200]}"


def page_errors(stderr: str, document_messages: frozenset[str]) -> list[str]:
    """The errors of one page in the output of pdftoppm, without warnings and without messages about the document."""
    lines = stderr.splitlines()
    return [line for line in lines if line.strip() and line not in document_messages and "Warning" not in line]


def text(run: ToolRunner, pdf: Path, first: int, last: int, output: Path, cpu_seconds: float) -> list[str] | None:
    """The text layers of pages `first` to `last`; None if the output cannot be split into pages."""
    output.unlink(missing_ok=True)
    run("pdftotext", "-q", "-enc", "UTF-8", "-eol", "unix", "-f", str(first), "-l", str(last), pdf, output,
        cpu_seconds=cpu_seconds)  # fmt: skip
    if not output.exists():
        return None
    pages = output.read_text(encoding="utf-8", errors="replace").split("\f")
    if first == last:
        return ["\n".join(pages)]
    # pdftotext writes no form feed for a page that it cannot open, and a font can map a glyph to a form feed.
    return pages[:-1] if len(pages) == last - first + 2 else None


def first_page_layout(run: ToolRunner, pdf: Path, output: Path, cpu_seconds: float) -> str:
    """The text layer of the first page, with the columns of its layout; empty if it has none."""
    output.unlink(missing_ok=True)
    run("pdftotext", "-q", "-layout", "-enc", "UTF-8", "-eol", "unix", "-f", "1", "-l", "1", pdf, output,
        cpu_seconds=cpu_seconds)  # fmt: skip
    return output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""


def metadata(run: ToolRunner, pdf: Path, output: Path, cpu_seconds: float) -> dict[str, str]:
    """The fields that pdfinfo prints, such as Title, Subject and CreationDate (in ISO format)."""
    completed = run("pdfinfo", "-isodates", "-enc", "UTF-8", pdf, cpu_seconds=cpu_seconds, stdout=output)
    if "incorrect password" in completed.stderr.lower():
        raise PasswordNeeded("the document opens only with a password")
    fields: dict[str, str] = {}
    for line in output.read_text(errors="replace").splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() == name:
            fields.setdefault(name, value.strip())
    if "Pages" not in fields:
        raise Unreadable(describe_message(completed.last_message))
    return fields


def words(run: ToolRunner, pdf: Path, page: int, box: Box, output: Path, cpu_seconds: float) -> list[list[Word]]:
    """The words of a page's text layer with their boxes on its rendered image, by line of text.

    Takes half as long again as the text, and the result is many times larger.
    """
    output.unlink(missing_ok=True)
    run("pdftotext", "-q", "-enc", "UTF-8", "-bbox-layout", "-cropbox", "-f", str(page), "-l", str(page), pdf, output,
        cpu_seconds=cpu_seconds)  # fmt: skip
    if not output.exists():
        return []
    # The size that pdftotext itself writes is that of the page without its rotation.
    lines: list[list[Word]] = []
    for match in _LINE_OR_WORD.finditer(output.read_text(encoding="utf-8", errors="replace")):
        if match["text"] is None:
            lines.append([])
            continue
        left, top, right, bottom = (float(match[name]) for name in ("left", "top", "right", "bottom"))
        word = make_word(html.unescape(match["text"]), left, top, right, bottom, box.width, box.height)
        if word.text and word.left < word.right and word.top < word.bottom and lines:
            lines[-1].append(word)
    return [line for line in lines if line]


def image_coverages(
    run: ToolRunner, pdf: Path, first: int, last: int, boxes: Mapping[int, Box], output: Path, cpu_seconds: float
) -> dict[int, float]:
    """The share of each page that its images cover as drawn: 1 for a scan, also if it consists of strips.

    Pages without images are left out.
    """
    run("pdfimages", "-list", "-f", str(first), "-l", str(last), pdf, cpu_seconds=cpu_seconds, stdout=output)
    covered: dict[int, float] = {}
    for line in output.read_text(errors="replace").splitlines()[2:]:
        cells = line.split()
        if len(cells) >= 14 and cells[2] in ("image", "stencil") and int(cells[0]) in boxes:
            width, height, x_ppi, y_ppi = (float(cells[column]) for column in (3, 4, -4, -3))
            box = boxes[int(cells[0])]
            area = width / x_ppi * height / y_ppi if x_ppi > 0 and y_ppi > 0 else 0.0
            covered[int(cells[0])] = covered.get(int(cells[0]), 0.0) + area / (box.width * box.height / 72**2)
    return covered


def thumbnails(
    run: ToolRunner, pdf: Path, first: int, last: int, longest_side: int, folder: Path, cpu_seconds: float
) -> tuple[dict[int, Path], str]:
    """Render pages in grey, small, with one call. Returns the images by page, and the error output."""
    for old in folder.glob("thumbnail-*.pgm"):
        old.unlink()
    completed = run("pdftoppm", "-gray", "-cropbox", "-scale-to", str(longest_side), "-f", str(first), "-l", str(last),
                    pdf, folder / "thumbnail", cpu_seconds=cpu_seconds)  # fmt: skip
    images = {int(path.stem.rpartition("-")[2]): path for path in folder.glob("thumbnail-*.pgm")}
    return images, completed.stderr


def render(run: ToolRunner, pdf: Path, page: int, dpi: float, target: Path, cpu_seconds: float) -> Completed:
    """Render the crop box of a page in grey to `target` (.pgm). The caller must check the file, not the exit code."""
    assert target.suffix == ".pgm"
    target.unlink(missing_ok=True)
    return run("pdftoppm", "-gray", "-cropbox", "-r", f"{dpi:.3f}", "-f", str(page), "-l", str(page), "-singlefile",
               pdf, target.with_suffix(""), cpu_seconds=cpu_seconds)  # fmt: skip


def render_png(run: ToolRunner, pdf: Path, page: int, longest_side: int, target: Path, cpu_seconds: float) -> Completed:
    """Render a page in colour to `target` (.png), scaled to a longest side of that many pixels.

    The caller must check the file, not the exit code.
    """
    assert target.suffix == ".png"
    target.unlink(missing_ok=True)
    return run("pdftoppm", "-png", "-cropbox", "-scale-to", str(longest_side), "-f", str(page), "-l", str(page),
               "-singlefile", pdf, target.with_suffix(""), cpu_seconds=cpu_seconds)  # fmt: skip
