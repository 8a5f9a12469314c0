"""Reader process of a first page: runs poppler in the sandbox, or parses a web page or a Word document.

`clerk.ocr.fork_server` forks it; `clerk.ocr.first_page` gives it the task and reads its one event.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from clerk.documents.media_types import PDF
from clerk.errors import HostError, PdfBroken, PdfError
from clerk.ocr import poppler, text_documents
from clerk.ocr.first_page import MAX_FIELD, MAX_TEXT, FirstPage
from clerk.ocr.limited_child import limit_process
from clerk.ocr.ocr_engine import limited_runner
from clerk.ocr.protocol import FirstPageTask
from clerk.ocr.reader_process import end_without_worker, read_line
from clerk.ocr.sandbox import Limits, ParentGone, ToolFailed

_CPU_SECONDS = 5.0
_OWN_MEMORY = 256 << 20
_MEMORY = 2 * _OWN_MEMORY
_TEXT_MEMORY = 768 << 20
"""For a web page or a Word document, which this process parses itself."""
_MAX_FILE_SIZE = 4 << 20


def main() -> None:
    parent_pipe = sys.stdin.fileno()
    task = FirstPageTask(**json.loads(read_line(parent_pipe)))
    pdf, scratch = Path(task.pdf), Path(task.scratch)
    os.chdir(scratch)
    try:
        page = _read(pdf, scratch, parent_pipe) if task.media_type == PDF else _read_text(pdf, task.media_type, scratch)
        event = {"event": "first_page", **asdict(page)}
    except (ToolFailed, PdfError, HostError) as error:
        message = str(error).replace(str(pdf), "the file")
        event = {"event": "failed", "error": getattr(error, "code", PdfBroken.code), "message": message}
    except ParentGone:
        end_without_worker(scratch)
    try:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        end_without_worker(scratch)


def _read(pdf: Path, scratch: Path, parent_pipe: int) -> FirstPage:
    limit_process(pdf, scratch, Limits(_OWN_MEMORY), 2 * _CPU_SECONDS)
    run = limited_runner(Limits(_MEMORY, file_size=_MAX_FILE_SIZE), scratch, parent_pipe)
    fields = poppler.metadata(run, pdf, scratch / "info", _CPU_SECONDS)
    text = poppler.first_page_layout(run, pdf, scratch / "text", _CPU_SECONDS)
    titles = [fields.get(name, "")[:MAX_FIELD] for name in ("Title", "Subject", "Keywords")]
    return FirstPage(text[:MAX_TEXT], "\n".join(filter(None, titles)), fields.get("CreationDate", "")[:10])


def _read_text(file: Path, media_type: str, scratch: Path) -> FirstPage:
    limit_process(file, scratch, Limits(_TEXT_MEMORY), 2 * _CPU_SECONDS)
    pages, title = text_documents.read_text(file, media_type)
    return FirstPage(pages[0][:MAX_TEXT] if pages else "", title[:MAX_FIELD])
