"""Reads the text of a document's first page and the title, in a sandbox. Of a PDF: the text layer and the metadata.

`read_first_page` starts a child process (`main`), which runs poppler in the sandbox (`clerk.ocr.limited_child`).
Limitation: a scan has no text layer before OCR.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from pathlib import Path

from clerk.documents.media_types import PDF
from clerk.errors import PdfError
from clerk.ocr import poppler, text_documents
from clerk.ocr.limited_child import ChildFailed, run_child, run_limited
from clerk.ocr.ocr_engine import limited_runner
from clerk.ocr.sandbox import Limits, ToolFailed
from clerk.ocr.scratch import scratch_folder

_CPU_SECONDS = 5.0
_TIMEOUT = 120.0
_OWN_MEMORY = 256 << 20
_MEMORY = 2 * _OWN_MEMORY
_TEXT_MEMORY = 768 << 20
"""For a web page or a Word document, which this process parses itself."""
_MAX_FILE_SIZE = 4 << 20
_MAX_TEXT = 50_000
_MAX_FIELD = 500


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
    """Read the first page, or raise FirstPageUnreadable. It takes about a fifth of a second."""
    with scratch_folder("first-page") as scratch:
        try:
            run_child(__name__, [pdf.resolve(), scratch, media_type], scratch, _TIMEOUT)
        except ChildFailed as error:
            raise FirstPageUnreadable(str(error)) from error
        return FirstPage(**json.loads(_target(scratch).read_text()))


def _target(scratch: Path) -> Path:
    return scratch / "first-page.json"


def _read(pdf: Path, scratch: Path, parent_pipe: int) -> None:
    run = limited_runner(Limits(_MEMORY, file_size=_MAX_FILE_SIZE), scratch, parent_pipe)
    fields = poppler.metadata(run, pdf, scratch / "info", _CPU_SECONDS)
    text = poppler.first_page_layout(run, pdf, scratch / "text", _CPU_SECONDS)
    titles = [fields.get(name, "")[:_MAX_FIELD] for name in ("Title", "Subject", "Keywords")]
    page = FirstPage(text[:_MAX_TEXT], "\n".join(filter(None, titles)), fields.get("CreationDate", "")[:10])
    _target(scratch).write_text(json.dumps(asdict(page)))


def _read_text(file: Path, media_type: str, scratch: Path, _parent_pipe: int) -> None:
    try:
        pages, title = text_documents.read_text(file, media_type)
    except PdfError as error:
        raise ToolFailed(str(error)) from error
    page = FirstPage(pages[0][:_MAX_TEXT] if pages else "", title[:_MAX_FIELD])
    _target(scratch).write_text(json.dumps(asdict(page)))


def main() -> None:
    pdf, scratch, media_type = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    if media_type == PDF:
        run_limited(partial(_read, pdf, scratch), pdf, scratch, Limits(_OWN_MEMORY), 2 * _CPU_SECONDS)
    else:
        read = partial(_read_text, pdf, media_type, scratch)
        run_limited(read, pdf, scratch, Limits(_TEXT_MEMORY), 2 * _CPU_SECONDS)


if __name__ == "__main__":
    main()
