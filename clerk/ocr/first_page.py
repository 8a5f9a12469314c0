"""Reads the text of a document's first page and the title, in a sandbox. Of a PDF: the text layer and the metadata.

The worker's side: the fork server forks a process that reads it (`clerk.ocr.first_page_process`). A new interpreter
would take most of the CPU time of a fetch.
A scan has no text layer: `clerk.ocr.first_page_ocr` recognizes its first page.
"""

from __future__ import annotations

import select
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from clerk.documents.media_types import PDF
from clerk.errors import HostError, PdfError, ReaderCrashed, ReaderOutputInvalid
from clerk.ocr.protocol import FirstPageTask
from clerk.ocr.reader_client import ReaderProcess
from clerk.ocr.reader_output import raise_failure
from clerk.ocr.scratch import scratch_folder

_TIMEOUT = 120.0
MAX_TEXT = 50_000
MAX_FIELD = 500
"""Of each of title, subject and keywords."""
_MAX_TITLE = 3 * MAX_FIELD + 2
_DAY = len("2024-03-05")


class FirstPageUnreadable(Exception):
    """Poppler cannot read the PDF. The message contains no paths."""


@dataclass(frozen=True)
class FirstPage:
    text: str
    """Empty if the page has no text layer."""
    title: str = ""
    """Title, subject and keywords of the PDF's metadata, a line each."""
    created: str = ""
    """The day on which the PDF was created, in ISO format."""

    @property
    def created_date(self) -> date | None:
        try:
            return date.fromisoformat(self.created)
        except ValueError:
            return None


def read_first_page(pdf: Path, media_type: str = PDF) -> FirstPage:
    """Read the first page, or raise FirstPageUnreadable."""
    with scratch_folder("first-page") as scratch:
        task = FirstPageTask(str(pdf.resolve()), str(scratch), media_type)
        try:
            try:
                return _receive(task)
            except ReaderCrashed:  # perhaps with its fork server, which other documents share; this one gets a new one
                return _receive(task)
        except (PdfError, HostError, ReaderCrashed, ReaderOutputInvalid) as error:
            raise FirstPageUnreadable(str(error)) from error


def _receive(task: FirstPageTask) -> FirstPage:
    deadline = time.monotonic() + _TIMEOUT
    with ReaderProcess(task) as process:
        while (remaining := deadline - time.monotonic()) > 0:
            if select.select([process], [], [], remaining)[0]:
                for event in process.receive():
                    raise_failure(event)
                    return _checked(event)
    raise FirstPageUnreadable(f"it did not finish within {_TIMEOUT:g} s")


def _checked(event: dict[str, Any]) -> FirstPage:
    """The process read an untrusted file, so it may be under the control of that file."""
    lengths = {"text": MAX_TEXT, "title": _MAX_TITLE, "created": _DAY}
    fields = {name: event.get(name) for name in lengths}
    if not all(isinstance(value, str) and len(value) <= lengths[name] for name, value in fields.items()):
        raise ReaderOutputInvalid("the process that reads the first page wrote an invalid event")
    return FirstPage(**{name: str(value) for name, value in fields.items()})
