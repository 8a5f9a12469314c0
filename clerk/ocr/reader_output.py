"""Checks of what a reader process returns. It read an untrusted file, so it may be under the control of that file."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clerk.documents.manifest import DOCX, EMPTY, FAILED, HTML, OCR, TEXT_LAYER
from clerk.errors import JOB_ERRORS, HostError, JobError, PdfBroken, PdfEmpty, PdfError, ReaderOutputInvalid
from clerk.ocr.protocol import MAX_CHARACTERS, PageResult

_MAX_IMAGE_BYTES = 64 << 20
_MAX_MESSAGE = 500
_MAX_WORD_BOXES = 32 << 20
_MAX_NOTES = 20
_MAX_MILLISECONDS = 10**9
_PNG_SIGNATURE, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


@dataclass(frozen=True)
class Inspected:
    page_count: int
    is_truncated: bool
    notes: list[str]


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_message(value: Any) -> bool:
    return value is None or isinstance(value, str)


CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "page": lambda value: _is_count(value, 10**9),
    "method": lambda value: value in (TEXT_LAYER, OCR, EMPTY, HTML, DOCX, FAILED),
    "text": lambda value: isinstance(value, str) and len(value) <= MAX_CHARACTERS,
    "confidence": lambda value: value is None or (isinstance(value, (int, float)) and math.isfinite(value)),
    "milliseconds": lambda value: _is_count(value, _MAX_MILLISECONDS),
    "rotation": lambda value: value in (0, 90, 180, 270),
    "error": _is_message,
    "image": _is_message,
    "reason": _is_message,
    "words": lambda value: value is None or (isinstance(value, str) and len(value) <= _MAX_WORD_BOXES),
}
"""For each field of PageResult: whether a value is valid."""


def raise_failure(event: Any) -> None:
    """Raise the error that the reader process reported. Any other code than those of documents and hosts becomes
    PdfBroken."""
    if not isinstance(event, dict) or "event" not in event:
        raise ReaderOutputInvalid("the OCR process wrote an event without a name")
    if event["event"] == "failed":
        raise reported_error(str(event.get("error")))(str(event.get("message"))[:_MAX_MESSAGE])


def reported_error(code: str) -> type[JobError]:
    error = JOB_ERRORS.get(code, PdfBroken)
    return error if issubclass(error, (PdfError, HostError)) else PdfBroken


def read_inspected(event: dict[str, Any], max_pages: int) -> Inspected:
    _require(event, "inspected")
    count, notes = event.get("page_count"), event.get("notes")
    if count == 0:
        raise PdfEmpty("the document has no page")
    if not _is_count(count, max_pages):
        raise ReaderOutputInvalid(f"the OCR process reported {str(count)[:20]} pages; {max_pages} are allowed")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ReaderOutputInvalid("the OCR process reported notes that are not texts")
    assert isinstance(count, int)
    return Inspected(count, bool(event.get("is_truncated")), [note[:_MAX_MESSAGE] for note in notes[:_MAX_NOTES]])


def read_pages(event: dict[str, Any], requested: Collection[int]) -> list[PageResult]:
    """The results of a `pages` event. Each page must be one of those that were requested and have no result yet."""
    _require(event, "pages")
    results = event.get("pages")
    if not isinstance(results, list) or not results:
        raise ReaderOutputInvalid("the OCR process reported results without a page")
    pages: dict[int, PageResult] = {}
    for result in results:
        page = _read_page(result)
        if page.page not in requested or page.page in pages:
            raise ReaderOutputInvalid(f"the OCR process returned page {page.page}, which it was not asked for")
        pages[page.page] = page
    return list(pages.values())


def _read_page(result: Any) -> PageResult:
    if not isinstance(result, dict) or result.keys() != CHECKS.keys():
        raise ReaderOutputInvalid("the OCR process returned a page with unknown fields")
    for name, is_valid in CHECKS.items():
        if not is_valid(result[name]):
            raise ReaderOutputInvalid(f"the OCR process returned an invalid {name}: {str(result[name])[:60]!r}")
    if result["method"] == FAILED and not result["error"]:
        raise ReaderOutputInvalid(f"the OCR process returned no error for failed page {result['page']}")
    for name in ("error", "reason"):
        if result[name] is not None:
            result[name] = result[name][:_MAX_MESSAGE]
    return PageResult(**result)


def _require(event: dict[str, Any], name: str) -> None:
    if event["event"] != name:
        raise ReaderOutputInvalid(f"the OCR process wrote the event {str(event['event'])[:60]!r} instead of {name!r}")


def read_image(path: Path) -> bytes:
    """The content of a PNG file that a reader process left. A link is not followed: it could name any file."""
    try:
        # O_NONBLOCK: opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ReaderOutputInvalid(
            f"the image {path.name} of the OCR process cannot be read: {error.strerror}"
        ) from error
    try:
        status = os.fstat(descriptor)
        # A file with a second name may belong to something else.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise ReaderOutputInvalid(f"the image {path.name} of the OCR process is not a file of its own")
        if status.st_size > _MAX_IMAGE_BYTES:
            raise ReaderOutputInvalid(f"the image {path.name} of the OCR process has {status.st_size:,} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(_MAX_IMAGE_BYTES + 1)
    finally:
        os.close(descriptor)
    if not (content.startswith(_PNG_SIGNATURE) and content.endswith(_PNG_END)):
        raise ReaderOutputInvalid(f"the image {path.name} of the OCR process is not a PNG file")
    return content
