"""What the worker and the reading child say to each other.

The worker (`clerk.ocr.process_document`) writes the task as one line of JSON to the child's standard input and keeps
that pipe open; when it closes, the worker is gone, and the child ends. The child (`clerk.ocr.reader_process`) answers
with lines of JSON on standard output:

    {"event": "inspected", "page_count": 12, "ends_early": false, "remarks": [...]}
    {"event": "pages", "pages": [{"page": 1, "method": "ocr", "text": "...", "image": "1.png", ...}]}
    {"event": "failed", "error": "PdfEncrypted", "message": "..."}
    {"event": "done"}

Apart from the child, so that the worker never imports what reads PDFs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CHILD = "clerk.ocr.reader_process"


@dataclass(frozen=True)
class Task:
    pdf: str
    scratch: str
    languages: str
    done: Sequence[int]
    """Pages that are read already."""
    images: str
    """`scanned`, `all` or `none`: of which pages an image is kept."""
    dpi: float
    memory: int
    page_seconds: float
    """CPU seconds that one page may take."""
    wasted_seconds: float
    """CPU seconds that may go, over the whole document, into what comes to nothing."""
    document_seconds: float
    """CPU seconds for the document, apart from what its second and later pages are given."""
    further_page_seconds: float
    most_pages: int


@dataclass(frozen=True)
class PageResult:
    page: int
    method: str
    text: str = ""
    confidence: float | None = None
    milliseconds: int = 0
    rotation: int = 0
    error: str | None = None
    image: str | None = None
