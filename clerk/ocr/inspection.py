"""What kind of file is it, and how many pages does it have? Runs in the reading child only.

Two programs are asked. Poppler, which will do the reading, opens more broken files, and knows the boxes; pypdf
walks the page tree itself, so that a page which poppler passes over in silence is missed. A page exists if either
has it.
"""

from __future__ import annotations

import signal
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pypdf
from pypdf.errors import LimitReachedError

from clerk.errors import NotAPdf, PdfBroken, PdfEmpty, PdfEncrypted, PdfTooLarge, PdfTruncated
from clerk.ocr import poppler
from clerk.ocr.sandbox import OutOfTime

Result = TypeVar("Result")

_HEADER_WITHIN = 1024
_END_WITHIN = 2048


@dataclass
class Inspection:
    page_count: int
    boxes: dict[int, poppler.Box]
    complaints: frozenset[str]
    remarks: list[str] = field(default_factory=list)
    ends_early: bool = False


def inspect(run: poppler.Run, pdf: Path, scratch: Path, most_pages: int, cpu_seconds: float) -> Inspection:
    head, tail = _edges(pdf)
    require_pdf(head)
    ends_early = b"%%EOF" not in tail and b"startxref" not in tail
    broken = PdfTruncated if ends_early else PdfBroken
    try:
        facts = poppler.pdf_info(run, pdf, scratch / "info", most_pages, cpu_seconds)
        complaint = "poppler finds none"
    except poppler.PasswordNeeded as error:
        raise PdfEncrypted(str(error)) from error
    except poppler.Unreadable as error:
        facts, complaint = poppler.PdfInfo(0, {}, frozenset()), str(error)
    if facts.page_count > most_pages:
        raise PdfTooLarge(f"{facts.page_count} pages, of which {most_pages} are allowed")

    found = Inspection(0, facts.boxes, facts.complaints, ends_early=ends_early)
    in_pypdf: int | None = None
    try:
        in_pypdf = within(cpu_seconds, lambda: _count(pdf, most_pages))
    except PdfTooLarge:
        raise
    except LimitReachedError as error:
        if facts.page_count == 0:
            raise PdfTooLarge(f"it has more of something than any document needs ({error})") from error
    except Exception:  # noqa: BLE001, S110 (pypdf raises whatever it stumbles over, and poppler may still read it)
        pass
    known_to_poppler = max(facts.boxes, default=0)
    # A document can claim pages that it does not have, but only pypdf, having walked the tree, may say so.
    found.page_count = facts.page_count if in_pypdf is None else max(in_pypdf, known_to_poppler)
    if found.page_count == 0:
        if in_pypdf == 0 and not ends_early:
            raise PdfEmpty("the document has no page")
        raise broken(f"no page can be found ({complaint})")
    if in_pypdf not in (None, known_to_poppler):
        found.remarks.append(f"poppler finds {known_to_poppler} pages, pypdf {in_pypdf}")
    if ends_early:
        found.remarks.append("the file has no end mark")
    return found


def require_pdf(head: bytes) -> None:
    """By its first bytes: what it is instead is worth saying, since that is what was published."""
    if not head:
        raise PdfEmpty("the file is empty")
    if b"%PDF-" in head:
        return
    start = head.lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<body", b"<!--")):
        raise NotAPdf("it is a web page")
    for signature, name in _OTHERS.items():
        if head.startswith(signature):
            raise NotAPdf(f"it is {name}")
    raise NotAPdf("it does not begin as a PDF does")


_OTHERS = {
    b"PK\x03\x04": "a ZIP or Office file",
    b"\xd0\xcf\x11\xe0": "an older Office file",
    b"{\\rtf": "an RTF file",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"II*\x00": "a TIFF image",
    b"MM\x00*": "a TIFF image",
    b"%!PS": "a PostScript file",
    b"\x1f\x8b": "a gzip file",
}


def _edges(pdf: Path) -> tuple[bytes, bytes]:
    with pdf.open("rb") as file:
        head = file.read(_HEADER_WITHIN)
        length = file.seek(0, 2)
        file.seek(max(0, length - _END_WITHIN))
        return head, file.read()


def _count(pdf: Path, most_pages: int) -> int:
    """Of the pages in the tree, walked one by one."""
    with pdf.open("rb") as file:
        reader = pypdf.PdfReader(file)
        if reader.is_encrypted:
            reader.decrypt("")
        declared = reader.root_object["/Pages"].get("/Count", 0)  # type: ignore[attr-defined]
        kids = reader.root_object["/Pages"].get("/Kids", ())  # type: ignore[attr-defined]
        if isinstance(declared, int) and declared > most_pages and len(kids) > most_pages:
            raise PdfTooLarge(f"{declared} pages, of which {most_pages} are allowed")
        pages = len(reader.pages)
    if pages > most_pages:
        raise PdfTooLarge(f"{pages} pages, of which {most_pages} are allowed")
    return pages


def within(cpu_seconds: float, work: Callable[[], Result]) -> Result:
    """Do it, or raise OutOfTime: a timer on the CPU time of this process, which has one thread."""

    def ring(_number: int, _frame: types.FrameType | None) -> None:
        raise OutOfTime(f"it took more than {cpu_seconds:.0f} s of CPU time")

    previous = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, max(cpu_seconds, 0.01))
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
