"""Documents without pages of their own: web pages and Word documents become pages of text, in a sandboxed process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clerk.documents.manifest import DOCX as DOCX_METHOD
from clerk.documents.manifest import HTML as HTML_METHOD
from clerk.documents.media_types import DOCX, HTML, NAMES, SIGNATURES, type_of_content
from clerk.errors import NotAPdf, PdfEmpty, PdfTooLarge
from clerk.ocr.protocol import PageResult

_HEAD_SIZE = 1024
_METHODS = {HTML: HTML_METHOD, DOCX: DOCX_METHOD}


def read_pages(file: Path, media_type: str, max_pages: int) -> list[str]:
    """The text of each page, or an error of documents."""
    pages, _ = read_text(file, media_type)
    if not pages:
        raise PdfEmpty(f"{NAMES[media_type]} without text")
    if len(pages) > max_pages:
        raise PdfTooLarge(f"{len(pages)} pages; at most {max_pages} are allowed")
    return pages


def read_text(file: Path, media_type: str) -> tuple[list[str], str]:
    """The text of each page, and the title."""
    _check_type(file, media_type)
    if media_type == DOCX:
        # Imported when needed: the processes that read PDFs do without.
        from clerk.ocr.docx_text import docx_pages

        return docx_pages(file)
    from clerk.ocr.html_text import MAX_BYTES, html_pages

    with file.open("rb") as opened:
        return html_pages(opened.read(MAX_BYTES + 1))


def page_result(pages: Sequence[str], number: int, media_type: str) -> PageResult:
    return PageResult(number, _METHODS[media_type], pages[number - 1], reason=f"the document is {NAMES[media_type]}")


def _check_type(file: Path, media_type: str) -> None:
    with file.open("rb") as opened:
        head = opened.read(_HEAD_SIZE)
    if not head:
        raise PdfEmpty("the file is empty")
    if type_of_content(head) != media_type:
        found = next((name for signature, name in SIGNATURES.items() if head.startswith(signature)), "something else")
        raise NotAPdf(f"it is {found}, not {NAMES[media_type]}")
