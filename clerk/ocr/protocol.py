"""Protocol between the worker and the reader process.

The worker (`clerk.ocr.document_readers`) writes the task as one line of JSON to the standard input of the reader
process (`clerk.ocr.reader_process`), and a request for pages after each `inspected` and `done`, never earlier: in
between, input means that the worker has died and the pipe is closed. The reader process writes events as lines of JSON
to standard output:

    {"event": "inspected", "page_count": 12, "is_truncated": false, "notes": [...]}
    {"event": "pages", "pages": [{"page": 1, "method": "ocr", "text": "...", "image": "1.png", "words": "...", ...}]}
    {"event": "done"}
    {"event": "failed", "error": "PdfEncrypted", "message": "..."}

A process that reads only the first page (`clerk.ocr.first_page_process`) gets another task, and writes one event:

    {"event": "first_page", "text": "...", "title": "...", "created": "2024-03-05"}

A separate module, so that the worker never imports a PDF parser.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clerk.documents.media_types import PDF

FORK_SERVER_MODULE = "clerk.ocr.fork_server"
READ_DOCUMENT, READ_FIRST_PAGE = b"d", b"p"
"""Requests to the fork server: the work of the process that it forks."""
PROCESS_ID = struct.Struct("<i")
"""Response of the fork server: the id of the reader process, or a negative error number."""
EXIT_STATUS = struct.Struct("<i")
"""What the fork server writes to the status socket: the exit code, or the negative number of a signal."""


MAX_CHARACTERS = 1_000_000
"""Of one page."""


@dataclass(frozen=True)
class Task:
    pdf: str
    scratch: str
    engine: Mapping[str, Any]
    """The fields of an `EngineReference`."""
    languages: str
    images: str
    """The pages whose images are stored: `scanned`, `all` or `none`."""
    dpi: float
    memory: int
    page_seconds: float
    """CPU seconds that one page may take."""
    failed_seconds: float
    """CPU seconds that all failed pages of the document may take together."""
    document_seconds: float
    """CPU seconds for the document, including its first page."""
    extra_page_seconds: float
    """Additional CPU seconds for each further page."""
    max_pages: int
    force_ocr: bool = False
    """Ignore text layers."""
    media_type: str = PDF

    def cpu_limit(self, page_count: int) -> float:
        """CPU seconds that the document may take."""
        return self.document_seconds + self.extra_page_seconds * (page_count - 1)


@dataclass(frozen=True)
class FirstPageTask:
    pdf: str
    scratch: str
    media_type: str = PDF


@dataclass(frozen=True)
class Request:
    pages: Sequence[int]
    """In ascending order."""
    share: float
    """The share of the document's CPU limit that this reader process may use: less than 1 if there are several."""


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
    reason: str | None = None
    """Why this method was used."""
    words: str | None = None
    """Word boxes on the image, as `clerk.documents.word_boxes.dumps` writes them."""
