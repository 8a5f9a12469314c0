"""A site's folder as the older system left it: which documents it has, and how much of each.

The older system deleted PDFs after reading them and left an empty marker under `processed/`, wrote a text file per
page or, in its first days, per document, and was often stopped in the middle. Nothing here changes a file.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path

from clerk.errors import ToolMissing
from clerk.ocr import ocr_engine, poppler
from clerk.ocr.sandbox import Limits, ToolFailed

_MARKS = frozenset(("pdfs", "txt", "processed", "images", "_agendas", "meetings.db"))
_BASES = {"minutes": "", "agenda": "_agendas"}
_STEM = re.compile(r"(\d{4}-\d{2}-\d{2})(?:_([1-9]\d{0,3}))?(?:_r([1-9]\d{0,3}))?")
_PAGE = re.compile(r"0*([1-9]\d{0,5})\.(?:txt|png)")
_COUNTING = Limits(memory=1 << 30)
_COUNTING_SECONDS = 10.0


class DocumentState(StrEnum):
    """How much of a document is there."""

    TEXT = "text"
    """Every page's text, as far as can be told."""
    PDF = "pdf"
    """The PDF, and not all of the text."""
    NOTHING = "nothing"
    """It was there once: a marker, images, or some of its pages."""


@dataclass
class OldDocument:
    kind: str
    meeting: str
    """The folder's name, which is all that the older system kept of the meeting's."""
    stem: str
    date: date
    occurrence: int = 1
    revision: int = 1
    pdf: Path | None = None
    pages: dict[int, Path] = field(default_factory=dict)
    whole_text: Path | None = None
    """The first layout: one file for all pages."""
    is_marked: bool = False
    """The older system noted that it had read it."""
    images: int = 0
    """The highest page that was rendered."""

    @property
    def name(self) -> str:
        return f"{self.kind} {shown(self.meeting)}/{self.stem}"

    @property
    def texts(self) -> dict[int, Path]:
        """What counts: the single pages if they are all, else the one file, else what pages there are."""
        if self.whole_text is not None and self.missing is not None:
            return {1: self.whole_text}
        return self.pages

    @functools.cached_property
    def missing(self) -> str | None:
        """What is missing in the single pages, for a person; None if they are all, as far as can be told.

        A PDF that is still there without a marker may have been left half-read. One that does not tell how many pages
        it has says nothing against a text without a gap, and could not be read anew either."""
        count = len(self.pages)
        if not count:
            return "there is no text"
        if max(self.pages) != count:
            missing = next(number for number in range(1, count + 2) if number not in self.pages)
            return f"the text of page {missing} is missing"
        if self.images > count:
            return f"there is an image of page {self.images}, and text of {count} pages"
        in_pdf = _count_pages(self.pdf) if self.pdf is not None and not self.is_marked else None
        if in_pdf not in (None, count):
            return f"the PDF has {in_pdf} pages, and there is text of {count}"
        return None

    def holding(self) -> tuple[DocumentState, str | None]:
        """And why it is not the text."""
        if self.missing is None or self.whole_text is not None:
            return DocumentState.TEXT, None
        return (DocumentState.PDF if self.pdf is not None else DocumentState.NOTHING), self.missing


@dataclass
class OldSite:
    folder: Path
    documents: list[OldDocument] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What could not be used, by name."""
    is_whole: bool = True
    """Every folder could be listed."""

    @property
    def text_files(self) -> int:
        return sum(len(document.texts) for document in self.documents)


def shown(name: str | Path) -> str:
    """A name as it can be printed: on disk it may be any bytes."""
    return os.fsencode(name).decode(errors="backslashreplace")


def missing_program() -> str | None:
    """What would have to be installed to count the pages of a PDF."""
    try:
        poppler.version()
    except ToolMissing as error:
        return str(error)
    return None


def site_folders(root: Path) -> list[str]:
    """Names of what looks like a site's folder, or might, if it could be read. Raises OSError if `root` cannot be."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if not entry.name.startswith(".") and _may_be_a_site(entry))


def _may_be_a_site(entry: os.DirEntry[str]) -> bool:
    try:
        return not _MARKS.isdisjoint(path.name for path in Path(entry.path).iterdir())
    except NotADirectoryError:
        return False
    except OSError:  # scanning it will say what is wrong
        return True


def scan(folder: Path) -> OldSite:
    """A folder that cannot be read is a problem of its own, not of the rest. No folder at all: no documents."""
    site = OldSite(folder)
    found: dict[tuple[str, str, str], OldDocument] = {}

    def document(kind: str, meeting: str, stem: str, path: Path) -> OldDocument | None:
        if (kind, meeting, stem) not in found:
            made = _document(kind, meeting, stem)
            if made is None:
                site.problems.append(f"{shown(path)} is not named after a date")
                return None
            found[kind, meeting, stem] = made
        return found[kind, meeting, stem]

    for kind, base in _BASES.items():
        if not _list(site, folder / base):
            break
        for meeting, entry in _entries(site, folder / base / "pdfs"):
            path = Path(entry.path)
            if path.suffix.lower() == ".pdf" and (one := document(kind, meeting, path.stem, path)):
                one.pdf = path
        for meeting, entry in _entries(site, folder / base / "txt"):
            if _is_folder(entry):
                if one := document(kind, meeting, entry.name, Path(entry.path)):
                    one.pages = _pages(site, Path(entry.path))
            elif entry.name.endswith(".txt") and (one := document(kind, meeting, entry.name[:-4], Path(entry.path))):
                one.whole_text = None if _is_empty(entry) else Path(entry.path)
        for meeting, entry in _entries(site, folder / base / "processed"):
            if entry.name.endswith(".txt") and (one := document(kind, meeting, entry.name[:-4], Path(entry.path))):
                one.is_marked = True
        for meeting, entry in _entries(site, folder / base / "images"):
            if _is_folder(entry) and (one := document(kind, meeting, entry.name, Path(entry.path))):
                one.images = max(_pages(site, Path(entry.path)), default=0)
    site.documents = [found[key] for key in sorted(found)]
    return site


def _document(kind: str, meeting: str, stem: str) -> OldDocument | None:
    match = _STEM.fullmatch(stem)
    try:
        day = date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None
    if match is None or day is None:
        return None
    return OldDocument(kind, meeting, stem, day, int(match[2] or 1), int(match[3] or 1))


def _entries(site: OldSite, folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """(meeting, what is in its folder)."""
    for meeting in _list(site, folder):
        if meeting.name.startswith("."):
            continue
        for entry in _list(site, Path(meeting.path)):
            if not entry.name.startswith("."):
                yield meeting.name, entry


def _pages(site: OldSite, folder: Path) -> dict[int, Path]:
    found: dict[int, Path] = {}
    for entry in _list(site, folder):
        match = _PAGE.fullmatch(entry.name)
        # 1.txt before 0001.txt: the plain name is where clerk itself looks.
        if match and (int(match[1]) not in found or not entry.name.startswith("0")):
            found[int(match[1])] = Path(entry.path)
    return dict(sorted(found.items()))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Or a link to one that is gone."""
    try:
        return entry.is_dir() or (entry.is_symlink() and not entry.is_file() and not entry.name.endswith(".txt"))
    except OSError:  # listing it will say what is wrong
        return True


def _is_empty(entry: os.DirEntry[str]) -> bool:
    """The one file for all pages, of a reading that was stopped before it had any."""
    try:
        return entry.stat().st_size == 0
    except OSError:  # reading it will say what is wrong
        return False


def _list(site: OldSite, folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        if folder.is_symlink():
            site.problems.append(f"{shown(folder)} is a link to something that is not there")
            site.is_whole = False
        return []
    except OSError as error:
        site.problems.append(f"{shown(folder)} cannot be read ({error.strerror})")
        # A file among the folders hides no document.
        site.is_whole = site.is_whole and isinstance(error, NotADirectoryError) and folder != site.folder
        return []


def _count_pages(pdf: Path) -> int | None:
    """None if it does not tell: encrypted, broken, or there is no program to ask."""
    with tempfile.TemporaryDirectory(prefix="clerk-") as scratch:
        run = ocr_engine.limited_runner(_COUNTING, Path(scratch), None)
        try:
            return poppler.pdf_info(run, pdf.absolute(), Path(scratch) / "info", 1, _COUNTING_SECONDS).page_count
        except (ToolFailed, ToolMissing):
            return None
