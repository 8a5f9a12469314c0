"""Determines the file type and the number of pages. Runs in the reader process only.

Both poppler and pypdf count the pages. Poppler, which renders the pages later, opens more damaged files and reports
the page boxes; pypdf walks the page tree, so it finds pages that poppler skips without a message. A page exists if
poppler finds it, or if pypdf finds it with contents. Files declare further pages that do not exist; those are ignored.
"""

from __future__ import annotations

import signal
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import pypdf
from pypdf.errors import LimitReachedError

from clerk.documents.media_types import SIGNATURES
from clerk.errors import NotAPdf, PdfBroken, PdfEmpty, PdfEncrypted, PdfTooLarge, PdfTruncated
from clerk.ocr import poppler
from clerk.ocr.sandbox import OutOfTime

Result = TypeVar("Result")

_HEADER_BYTES = 1024
_TRAILER_BYTES = 2048


@dataclass
class Inspection:
    page_count: int
    boxes: Mapping[int, poppler.Box]
    document_messages: frozenset[str]
    """Poppler's messages about the document as a whole."""
    notes: list[str] = field(default_factory=list)
    is_truncated: bool = False
    text_layers: Sequence[str] = ()
    """The text layers of all pages, if the inspection read them."""
    has_no_images: Callable[[int], bool] = lambda page: False
    """Whether a page has certainly no image; False if that is unknown."""


def inspect(run: poppler.ToolRunner, pdf: Path, scratch: Path, max_pages: int, cpu_seconds: float) -> Inspection:
    head, tail = head_and_tail(pdf)
    has_header = check_type(head)
    is_truncated = b"%%EOF" not in tail and b"startxref" not in tail
    try:
        info = poppler.pdf_info(run, pdf, scratch / "info", max_pages, cpu_seconds)
        message = "poppler finds none"
    except poppler.PasswordNeeded as error:
        raise PdfEncrypted(str(error)) from error
    except poppler.Unreadable as error:
        info, message = poppler.PdfInfo(0, {}, frozenset()), str(error)
    if info.page_count > max_pages:
        raise PdfTooLarge(f"{info.page_count} pages; at most {max_pages} are allowed")

    found = max(info.boxes, default=0)
    counted: _PageTree | None = None
    try:
        counted = run_with_cpu_limit(cpu_seconds, lambda: walk_page_tree(pdf, max_pages, found))
    except PdfTooLarge:
        raise
    except LimitReachedError as error:
        if info.page_count == 0:
            raise PdfTooLarge(f"it exceeds a limit of pypdf ({error})") from error
    except Exception:  # noqa: BLE001, S110 (pypdf raises any exception for damaged files, and poppler may still open them)
        pass
    listed = info.page_count if counted is None else max(counted.pages, found)
    if listed == 0:
        if not has_header:
            raise NotAPdf("it does not begin with %PDF")
        if counted is not None and not is_truncated:
            raise PdfEmpty("the document has no page")
        broken = PdfTruncated if is_truncated else PdfBroken
        raise broken(f"no page can be displayed ({message})")
    with_contents = found if counted is None else max(found, counted.last_with_contents)
    # The missing pages of a truncated file existed. A file that lacks most of its pages is damaged.
    page_count = listed if is_truncated or 2 * with_contents < listed else with_contents
    inspection = Inspection(page_count, info.boxes, info.document_messages, is_truncated=is_truncated)
    if listed > found:
        inspection.notes.append(f"the file lists {listed} pages, of which {len(info.boxes)} can be displayed")
    if is_truncated:
        inspection.notes.append("the file has no end mark")
    if not has_header:
        inspection.notes.append("the file does not begin with %PDF")
    return inspection


def check_type(head: bytes) -> bool:
    """Whether these first bytes have the header of a PDF. Raises PdfEmpty or NotAPdf if they are of another type.

    The header can be damaged: poppler opens such files too.
    """
    if not head:
        raise PdfEmpty("the file is empty")
    if b"%PDF" in head:
        return True
    start = head.lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<body", b"<!--")):
        raise NotAPdf("it is a web page")
    for signature, name in SIGNATURES.items():
        if head.startswith(signature):
            raise NotAPdf(f"it is {name}")
    return False


def head_and_tail(pdf: Path) -> tuple[bytes, bytes]:
    with pdf.open("rb") as file:
        head = file.read(_HEADER_BYTES)
        length = file.seek(0, 2)
        file.seek(max(0, length - _TRAILER_BYTES))
        return head, file.read()


class _PageTree(NamedTuple):
    pages: int
    last_with_contents: int
    """The last page with contents among those that poppler did not find; 0 if there is none."""


def walk_page_tree(pdf: Path, max_pages: int, found_by_poppler: int) -> _PageTree:
    with pdf.open("rb") as file:
        reader = pypdf.PdfReader(file)
        if reader.is_encrypted:
            reader.decrypt("")
        declared = reader.root_object["/Pages"].get("/Count", 0)  # type: ignore[attr-defined]
        kids = reader.root_object["/Pages"].get("/Kids", ())  # type: ignore[attr-defined]
        if isinstance(declared, int) and declared > max_pages and len(kids) > max_pages:
            raise PdfTooLarge(f"{declared} pages; at most {max_pages} are allowed")
        pages = len(reader.pages)
        if pages > max_pages:
            raise PdfTooLarge(f"{pages} pages; at most {max_pages} are allowed")
        missing = range(found_by_poppler + 1, pages + 1)
        last = max((page for page in missing if "/Contents" in reader.pages[page - 1]), default=0)
    return _PageTree(pages, last)


def run_with_cpu_limit(cpu_seconds: float, work: Callable[[], Result]) -> Result:
    """Call `work`, or raise OutOfTime when this process, which has one thread, has used that much CPU time."""

    def on_timer(_number: int, _frame: types.FrameType | None) -> None:
        raise OutOfTime(f"it took more than {cpu_seconds:.0f} s of CPU time")

    previous = signal.signal(signal.SIGPROF, on_timer)
    signal.setitimer(signal.ITIMER_PROF, max(cpu_seconds, 0.01))
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
