"""One document: what is known of it, and its pages, image beside text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from psycopg import sql
from psycopg.rows import DictRow
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from clerk.archive.search import highlight
from clerk.documents.sanitize import folder_name
from clerk.documents.storage import Document
from clerk.errors import job_error_class
from clerk.ocr.page_render import RenderFailed, can_render, render_page
from clerk.web import paging
from clerk.web.db import Example, ReadOnlyPool, rows
from clerk.web.files import DocumentFiles, PageView, document_files
from clerk.web.rendering import page

_LARGEST_ID = 2**63 - 1
_PRIVATE = {"Cache-Control": "private, max-age=300"}
_DOCUMENT = sql.SQL("select * from site_documents where id = %(id)s and subdomain = %(subdomain)s")
_HISTORY = sql.SQL("""
    select id, meeting, date, revision, fetched_at, superseded_at
    from site_documents
    where subdomain = %(subdomain)s and lineage_id = %(lineage_id)s and id <> %(id)s
    order by id desc limit 20
""")
QUERIES: list[Example] = [(query, {"id": 1, "subdomain": "", "lineage_id": 1}) for query in (_DOCUMENT, _HISTORY)]


@dataclass(frozen=True)
class Step:
    """What a stage did with the document."""

    stage: str
    name: str
    status: str | None
    attempts: int | None
    at: Any
    took: Any
    error_code: str | None
    error_message: str | None

    @property
    def remedy(self) -> str | None:
        return job_error_class(self.error_code).remedy if self.error_code else None


def show(request: Request) -> Response:
    row, history = _read(request)
    words = paging.text(request.query_params.get("q", ""), 200)
    found, pages = _papers(request.app.state.storage_dir, row)
    number = min(paging.page_number(request.query_params.get("page", "")), max(pages, 1))
    leaf = _leaf(found, number) if pages else None
    return page(
        "document.html",
        row=row,
        history=history,
        steps=_steps(row),
        papers=found,
        pages=pages,
        number=number,
        leaf=leaf,
        has_pdf=_pdf(found) is not None,
        can_draw=can_render(),
        text=highlight(leaf.text, words) if leaf and leaf.text else None,
        words=words,
        link=_link_to(row, words),
    )


async def image(request: Request) -> Response:
    """The image that was kept of a page, or one drawn from the PDF now. Whoever waits for that holds up nobody else."""
    number = request.path_params["page"]
    found, kept = await run_in_threadpool(_kept, request, number)
    if kept is not None:
        return _picture(kept)
    pdf = await run_in_threadpool(_pdf, found)
    if pdf is None:
        raise HTTPException(404, "There is no image of that page on this machine.")
    drawing: asyncio.Semaphore = request.app.state.drawing
    try:
        async with drawing:
            return _picture(await run_in_threadpool(render_page, pdf, number))
    except (RenderFailed, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise HTTPException(503, f"The page could not be drawn: {why}.") from error


def original(request: Request) -> Response:
    """The PDF as it was fetched: to be saved, never shown by us, since anything may be in it."""
    row, _ = _read(request)
    found, _ = _papers(request.app.state.storage_dir, row)
    pdf = _pdf(found)
    if pdf is None or found is None:
        raise HTTPException(404, "The PDF of this document is not on this machine.")
    document = found.document
    name = f"{document.subdomain} {folder_name(document.meeting)} {document.stem}.pdf"
    return FileResponse(pdf, media_type="application/pdf", filename=name, headers=_PRIVATE)


def _kept(request: Request, number: int) -> tuple[DocumentFiles | None, bytes | None]:
    row, _ = _read(request)
    found, pages = _papers(request.app.state.storage_dir, row)
    if not found or not 1 <= number <= pages:
        return None, None
    try:
        return found, found.image(number)
    except OSError:
        return found, None


def _picture(content: bytes) -> Response:
    return Response(content, media_type="image/png", headers=_PRIVATE)


def _pdf(found: DocumentFiles | None) -> Path | None:
    try:
        return found.pdf if found else None
    except OSError:
        return None


def _read(request: Request) -> tuple[DictRow, list[DictRow]]:
    reader: ReadOnlyPool = request.app.state.reader
    number, subdomain = request.path_params["document"], request.path_params["subdomain"].replace("\0", "")
    if number <= _LARGEST_ID:
        with reader.reading() as connection:
            named = {"id": number, "subdomain": subdomain}
            for row in rows(connection, _DOCUMENT, named):
                return row, rows(connection, _HISTORY, named | {"lineage_id": row["lineage_id"]})
    raise HTTPException(404, f"There is no document {number} of {subdomain}.")


def _papers(storage_dir: Path | None, row: DictRow) -> tuple[DocumentFiles | None, int]:
    """The files, if this machine could have them, and how many pages the document has."""
    document = Document(
        *(row[name] for name in ("id", "subdomain", "kind", "meeting", "date", "occurrence", "revision", "sha256"))
    )
    try:
        found = document_files(storage_dir, document)
    except OSError as error:
        raise HTTPException(503, f"The storage on this machine cannot be read: {error.strerror}.") from error
    known = found.known.page_count if found and found.known else None
    return found, known or row["page_count"] or 0


def _leaf(found: DocumentFiles | None, number: int) -> PageView | None:
    try:
        return found.leaf(number) if found and found.are_here else None
    except OSError as error:
        raise HTTPException(503, f"The storage on this machine cannot be read: {error.strerror}.") from error


def _steps(row: DictRow) -> list[Step]:
    fetched = "processed" if row["sha256"] else "failed_terminal" if row["fetch_error_code"] else None
    at = row["fetched_at"] or row["fetch_failed_at"]
    return [
        Step("fetch", "Fetch", fetched, None, at, None, row["fetch_error_code"], row["fetch_error_message"]),
        *(
            Step(
                stage,
                name,
                row[f"{stage}_status"],
                row[f"{stage}_attempts"],
                row[f"{stage}_processed_at"] or row[f"{stage}_last_attempt_at"],
                row[f"{stage}_took"],
                row[f"{stage}_error_code"] if row[f"{stage}_status"] != "processed" else None,
                row[f"{stage}_error_message"],
            )
            for stage, name in (("ocr", "Read pages"), ("extraction", "People and votes"))
        ),
    ]


def _link_to(row: DictRow, words: str) -> Callable[..., str]:
    def link(page: int) -> str:
        query = urlencode({"page": page} | ({"q": words} if words else {}))
        return f"/sites/{quote(row['subdomain'])}/documents/{row['id']}?{query}#pages"

    return link
