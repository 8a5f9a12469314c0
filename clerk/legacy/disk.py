"""Scan of a legacy site's folder: its documents, and which of their files exist. Read-only.

Legacy clerk deleted PDFs after OCR and left an empty marker under `processed/`. It wrote one text file per page or, in
its first version, per document. It was often stopped halfway through a document.
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

from clerk.config import Settings
from clerk.errors import SettingError, ToolMissing
from clerk.ocr import ocr_engine, poppler
from clerk.ocr.sandbox import Limits, ToolFailed

_SITE_ENTRIES = frozenset(("pdfs", "txt", "processed", "images", "_agendas", "meetings.db"))
_BASES = {"minutes": "", "agenda": "_agendas"}
_STEM = re.compile(r"(\d{4}-\d{2}-\d{2})(?:_([1-9]\d{0,3}))?(?:_r([1-9]\d{0,3}))?")
_PAGE = re.compile(r"0*([1-9]\d{0,5})\.(?:txt|png)")
_PAGE_COUNT_LIMITS = Limits(memory=1 << 30)
_PAGE_COUNT_TIMEOUT = 10.0


def require_folder(settings: Settings) -> Path:
    """STORAGE_DIR, if it is a folder: legacy clerk had no other storage."""
    if not isinstance(settings.storage_dir, Path):
        raise SettingError(
            f"STORAGE_DIR is {settings.storage_dir}, and the files of legacy clerk are in a folder",
            "set STORAGE_DIR to that folder, import, then copy it to the bucket (docs/storage.md)",
        )
    return settings.storage_dir


class DocumentState(StrEnum):
    """Which files of a document exist."""

    TEXT = "text"
    """The text of every page, as far as can be determined."""
    PDF = "pdf"
    """The PDF, but not all of the text."""
    NOTHING = "nothing"
    """Only a marker, images, or some of the pages."""


@dataclass
class LegacyDocument:
    kind: str
    meeting: str
    """The name of the folder: legacy clerk did not store the meeting's own name."""
    stem: str
    date: date
    occurrence: int = 1
    revision: int = 1
    pdf: Path | None = None
    pages: dict[int, Path] = field(default_factory=dict)
    whole_text: Path | None = None
    """One file for all pages, in the first layout."""
    has_marker: bool = False
    """Legacy clerk marked it as processed."""
    images: int = 0
    """The highest page number with an image."""

    @property
    def name(self) -> str:
        return f"{self.kind} {printable(self.meeting)}/{self.stem}"

    @property
    def texts(self) -> dict[int, Path]:
        """The page files if they are complete, else the single file, else the existing page files."""
        if self.whole_text is not None and self.missing is not None:
            return {1: self.whole_text}
        return self.pages

    @functools.cached_property
    def missing(self) -> str | None:
        """What is missing from the page files, as a message; None if they are complete, as far as can be determined.

        A PDF without a marker may have been processed halfway, so its pages are counted. If they cannot be counted, a
        text without gaps counts as complete: such a PDF could not be processed again either."""
        count = len(self.pages)
        if not count:
            return "there is no text"
        if max(self.pages) != count:
            missing = next(number for number in range(1, count + 2) if number not in self.pages)
            return f"the text of page {missing} is missing"
        if self.images > count:
            return f"there is an image of page {self.images}, and text of {count} pages"
        in_pdf = _count_pages(self.pdf) if self.pdf is not None and not self.has_marker else None
        if in_pdf not in (None, count):
            return f"the PDF has {in_pdf} pages, and there is text of {count}"
        return None

    def state(self) -> tuple[DocumentState, str | None]:
        """The state and, unless it is TEXT, the reason."""
        if self.missing is None or self.whole_text is not None:
            return DocumentState.TEXT, None
        return (DocumentState.PDF if self.pdf is not None else DocumentState.NOTHING), self.missing


@dataclass
class LegacySite:
    folder: Path
    documents: list[LegacyDocument] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Files and folders that could not be used."""
    is_complete: bool = True
    """All folders could be listed."""

    @property
    def text_files(self) -> int:
        return sum(len(document.texts) for document in self.documents)


def printable(name: str | Path) -> str:
    """The name with undecodable bytes escaped."""
    return os.fsencode(name).decode(errors="backslashreplace")


def missing_pdf_tool() -> str | None:
    """How to install the program that counts the pages of a PDF, if it is missing."""
    try:
        poppler.version()
    except ToolMissing as error:
        return str(error)
    return None


def list_site_folders(root: Path) -> list[str]:
    """Names of site folders, unreadable folders included. Raises OSError if `root` cannot be read."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if not entry.name.startswith(".") and _may_be_a_site(entry))


def _may_be_a_site(entry: os.DirEntry[str]) -> bool:
    try:
        return not _SITE_ENTRIES.isdisjoint(path.name for path in Path(entry.path).iterdir())
    except NotADirectoryError:
        return False
    except OSError:  # scan() reports the reason
        return True


def scan(folder: Path) -> LegacySite:
    """Scan a site's folder. Unreadable folders are reported in `problems`; a missing folder has no documents."""
    site = LegacySite(folder)
    documents: dict[tuple[str, str, str], LegacyDocument] = {}

    def get(kind: str, meeting: str, stem: str, path: Path) -> LegacyDocument | None:
        if (kind, meeting, stem) not in documents:
            created = _document(kind, meeting, stem)
            if created is None:
                site.problems.append(f"{printable(path)} is not named after a date")
                return None
            documents[kind, meeting, stem] = created
        return documents[kind, meeting, stem]

    for kind, base in _BASES.items():
        if not _list(site, folder / base):
            break
        for meeting, entry in _entries(site, folder / base / "pdfs"):
            path = Path(entry.path)
            if path.suffix.lower() == ".pdf" and (document := get(kind, meeting, path.stem, path)):
                document.pdf = path
        for meeting, entry in _entries(site, folder / base / "txt"):
            if _is_folder(entry):
                if document := get(kind, meeting, entry.name, Path(entry.path)):
                    document.pages = _pages(site, Path(entry.path))
            elif entry.name.endswith(".txt") and (document := get(kind, meeting, entry.name[:-4], Path(entry.path))):
                document.whole_text = None if _is_empty(entry) else Path(entry.path)
        for meeting, entry in _entries(site, folder / base / "processed"):
            if entry.name.endswith(".txt") and (document := get(kind, meeting, entry.name[:-4], Path(entry.path))):
                document.has_marker = True
        for meeting, entry in _entries(site, folder / base / "images"):
            if _is_folder(entry) and (document := get(kind, meeting, entry.name, Path(entry.path))):
                document.images = max(_pages(site, Path(entry.path)), default=0)
    site.documents = [documents[key] for key in sorted(documents)]
    return site


def _document(kind: str, meeting: str, stem: str) -> LegacyDocument | None:
    match = _STEM.fullmatch(stem)
    try:
        day = date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None
    if match is None or day is None:
        return None
    return LegacyDocument(kind, meeting, stem, day, int(match[2] or 1), int(match[3] or 1))


def _entries(site: LegacySite, folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """(meeting, entry of its folder)."""
    for meeting in _list(site, folder):
        if meeting.name.startswith("."):
            continue
        for entry in _list(site, Path(meeting.path)):
            if not entry.name.startswith("."):
                yield meeting.name, entry


def _pages(site: LegacySite, folder: Path) -> dict[int, Path]:
    pages: dict[int, Path] = {}
    for entry in _list(site, folder):
        match = _PAGE.fullmatch(entry.name)
        # 1.txt is preferred to 0001.txt: it is the name that clerk uses.
        if match and (int(match[1]) not in pages or not entry.name.startswith("0")):
            pages[int(match[1])] = Path(entry.path)
    return dict(sorted(pages.items()))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Also true for a dangling link."""
    try:
        return entry.is_dir() or (entry.is_symlink() and not entry.is_file() and not entry.name.endswith(".txt"))
    except OSError:  # listing it reports the reason
        return True


def _is_empty(entry: os.DirEntry[str]) -> bool:
    """An empty single file: legacy clerk was stopped before it wrote any text."""
    try:
        return entry.stat().st_size == 0
    except OSError:  # reading it reports the reason
        return False


def _list(site: LegacySite, folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        if folder.is_symlink():
            site.problems.append(f"{printable(folder)} is a dangling link")
            site.is_complete = False
        return []
    except OSError as error:
        site.problems.append(f"{printable(folder)} cannot be read ({error.strerror})")
        # A file in place of a meeting's folder hides no document.
        site.is_complete = site.is_complete and isinstance(error, NotADirectoryError) and folder != site.folder
        return []


def _count_pages(pdf: Path) -> int | None:
    """None if the PDF is encrypted or broken, or pdfinfo is missing."""
    with tempfile.TemporaryDirectory(prefix="clerk-") as scratch:
        run = ocr_engine.limited_runner(_PAGE_COUNT_LIMITS, Path(scratch), None)
        try:
            return poppler.pdf_info(run, pdf.absolute(), Path(scratch) / "info", 1, _PAGE_COUNT_TIMEOUT).page_count
        except (ToolFailed, ToolMissing):
            return None
