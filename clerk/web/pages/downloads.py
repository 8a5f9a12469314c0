"""Downloads of a document: its text, and the PDF with the recognized text as an invisible layer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import BinaryIO

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from clerk.documents.sanitize import folder_name
from clerk.documents.storage import local_copy
from clerk.ocr.limited_child import ChildFailed
from clerk.ocr.searchable_pdf import read_page_texts, searchable_pdf
from clerk.web.files import DocumentFiles
from clerk.web.pages.document import read_document, read_files

_CHUNK = 1 << 16


def text(request: Request) -> Response:
    """The text of all pages, each under its number."""
    row, _ = read_document(request)
    files, page_count = read_files(request.app.state.storage_dir, row)
    if files is None or not page_count or not files.exist:
        raise HTTPException(404, "The text of this document is not on this machine.")

    def pages() -> Iterator[str]:
        for number in range(1, page_count + 1):
            yield f"[Page {number} of {page_count}]\n\n{files.page(number).text or ''}\n\n"

    headers = {"Content-Disposition": f'attachment; filename="{_name(files)}.txt"', "Cache-Control": "no-store"}
    return StreamingResponse(pages(), media_type="text/plain", headers=headers)


async def searchable(request: Request) -> Response:
    """The PDF with the text of OCR. It is made now, in a limited process; waiting for a slot blocks no thread."""
    render_slots: asyncio.Semaphore = request.app.state.render_slots
    with contextlib.ExitStack() as stack:
        try:
            async with render_slots:
                name, file = await run_in_threadpool(_make_searchable, request, stack)
        except (ChildFailed, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise HTTPException(503, f"The searchable PDF could not be made: {reason}.") from error
        sent = BackgroundTask(stack.pop_all().close)
    headers = {"Content-Disposition": f'attachment; filename="{name} searchable.pdf"', "Cache-Control": "no-store"}
    chunks = iter(lambda: file.read(_CHUNK), b"")
    return StreamingResponse(chunks, media_type="application/pdf", headers=headers, background=sent)


def _make_searchable(request: Request, stack: contextlib.ExitStack) -> tuple[str, BinaryIO]:
    row, _ = read_document(request)
    files, _ = read_files(request.app.state.storage_dir, row)
    if files is None or files.manifest is None or files.pdf is None or not files.has_ocr_text:
        raise HTTPException(404, "This document has no searchable PDF: OCR added no text, or the PDF is elsewhere.")
    texts = read_page_texts(files.storage, files.document, files.manifest)
    pdf = stack.enter_context(local_copy(files.pdf))
    return _name(files), stack.enter_context(searchable_pdf(pdf, texts.boxes))


def _name(files: DocumentFiles) -> str:
    """In ASCII: headers hold no other letters."""
    document = files.document
    name = f"{document.subdomain} {folder_name(document.meeting)} {document.stem}"
    return name.encode("ascii", "ignore").decode().replace('"', "").replace("\\", "")
