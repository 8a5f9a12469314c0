"""A site's folder as the older system left it: which documents it has, and how much of each.

The older system deleted PDFs after reading them and left an empty marker under `processed/`, wrote a text file per
page or, in its first days, per document, and was often stopped in the middle. Nothing here changes a file.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from filecmp import cmp
from pathlib import Path

from clerk.documents import engine
from clerk.exec import poppler
from clerk.exec.limited import Limits, ToolFailed

_BASES = {"minutes": "", "agenda": "_agendas"}
_STEM = re.compile(r"(\d{4}-\d{2}-\d{2})(?:_([1-9]\d{0,3}))?(?:_r([1-9]\d{0,3}))?")
_PAGE = re.compile(r"0*([1-9]\d{0,5})\.(?:txt|png)")
_COUNTING = Limits(memory=1 << 30)
_COUNTING_SECONDS = 10.0


class Holding(StrEnum):
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
        return f"{self.kind} {self.meeting}/{self.stem}"

    @property
    def texts(self) -> dict[int, Path]:
        return self.pages or ({1: self.whole_text} if self.whole_text is not None else {})

    @property
    def gap(self) -> str | None:
        """What is missing in the texts, for a person; None if they may be all."""
        count = len(self.texts)
        if not count:
            return "there is no text"
        if max(self.texts) != count:
            missing = next(number for number in range(1, count + 2) if number not in self.texts)
            return f"the text of page {missing} is missing"
        if self.whole_text is None and self.images > count:
            return f"there is an image of page {self.images}, and text of {count} pages"
        return None

    @property
    def _is_one_file(self) -> bool:
        """Its only page is the second name that a take-over, cut short later, gave to the text of all pages."""
        try:
            return self.whole_text is not None and [*self.pages] == [1] and cmp(self.whole_text, self.pages[1], False)
        except OSError:
            return False

    def holding(self) -> tuple[Holding, str | None]:
        """And why it is not the text. A PDF that is still there without a marker may have been left half-read."""
        problem = self.gap
        if problem is None and self.pdf is not None and not self.is_marked and self.pages and not self._is_one_file:
            count = _count_pages(self.pdf)
            if count != len(self.pages):
                problem = f"the PDF has {count or 'an unknown number of'} pages, and there is text of {len(self.pages)}"
        if problem is None:
            return Holding.TEXT, None
        return (Holding.PDF if self.pdf is not None else Holding.NOTHING), problem


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


def site_folders(root: Path) -> list[str]:
    """Names of what looks like a site's folder."""
    try:
        found = sorted(entry.name for entry in os.scandir(root) if _is_folder(entry) and not entry.name.startswith("."))
    except FileNotFoundError:
        return []
    return found


def scan(folder: Path) -> OldSite:
    """A folder that cannot be read is a problem of its own, not of the rest. No folder at all: no documents."""
    site = OldSite(folder)
    found: dict[tuple[str, str, str], OldDocument] = {}

    def document(kind: str, meeting: str, stem: str, path: Path) -> OldDocument | None:
        if (kind, meeting, stem) not in found:
            made = _document(kind, meeting, stem)
            if made is None:
                site.problems.append(f"{path} is not named after a date")
                return None
            found[kind, meeting, stem] = made
        return found[kind, meeting, stem]

    for kind, base in _BASES.items():
        for meeting, entry in _entries(site, folder / base / "pdfs"):
            if entry.name.endswith(".pdf") and (one := document(kind, meeting, entry.name[:-4], Path(entry.path))):
                one.pdf = Path(entry.path)
        for meeting, entry in _entries(site, folder / base / "txt"):
            if _is_folder(entry):
                if one := document(kind, meeting, entry.name, Path(entry.path)):
                    one.pages = _pages(site, Path(entry.path))
            elif entry.name.endswith(".txt") and (one := document(kind, meeting, entry.name[:-4], Path(entry.path))):
                one.whole_text = Path(entry.path)
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
    try:
        return entry.is_dir()
    except OSError:  # listing it will say what is wrong
        return True


def _list(site: OldSite, folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        site.problems.append(f"{folder} cannot be read ({error.strerror})")
        # A file among the folders hides no document.
        site.is_whole = site.is_whole and isinstance(error, NotADirectoryError)
        return []


def _count_pages(pdf: Path) -> int | None:
    with tempfile.TemporaryDirectory(prefix="clerk-") as scratch:
        run = engine.tools(_COUNTING, Path(scratch), None)
        try:
            return poppler.facts(run, pdf.absolute(), Path(scratch) / "info", 1, _COUNTING_SECONDS).page_count
        except ToolFailed:
            return None
