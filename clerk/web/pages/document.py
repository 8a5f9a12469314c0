"""One document: its metadata, its stages, and its pages with image and text side by side."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from psycopg import sql
from psycopg.rows import DictRow
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from clerk.archive.hits import cite, page_path
from clerk.archive.query import HIGHLIGHT, InvalidQuery, parse
from clerk.archive.query_parser import MAX_LENGTH
from clerk.documents.kinds import ORIGINS
from clerk.documents.media_types import HTML, NAMES, STORED_EXTENSIONS, media_type_of
from clerk.documents.sanitize import folder_name
from clerk.documents.storage import Document, local_copy
from clerk.documents.word_boxes import WordBoxes
from clerk.errors import job_error_class
from clerk.object_storage.path import ObjectPath, StoragePath
from clerk.ocr.layer_words import layer_words
from clerk.ocr.limited_child import ChildFailed
from clerk.ocr.page_render import RenderFailed, can_render, render_page
from clerk.stage_names import stage_name
from clerk.web import paging
from clerk.web.db import SITE_NAME, ReadOnlyPool, SampleQuery, fetch_rows, read_site_name
from clerk.web.files import DocumentFiles, PageView, document_files
from clerk.web.matches import draw_boxes, find_matches
from clerk.web.rendering import is_web_url, render

logger = logging.getLogger(__name__)

_MAX_ID = 2**63 - 1
_CACHE_HEADERS = {"Cache-Control": "private, max-age=300"}
_DOCUMENT = sql.SQL("select * from site_documents where id = %(id)s and subdomain = %(subdomain)s")
_OTHER_VERSIONS = sql.SQL("""
    select id, meeting, date, revision, fetched_at, superseded_at
    from site_documents
    where subdomain = %(subdomain)s and lineage_id = %(lineage_id)s and id <> %(id)s
    order by id desc limit 20
""")
QUERIES: list[SampleQuery] = [
    (query, {"id": 1, "subdomain": "", "lineage_id": 1}) for query in (_DOCUMENT, _OTHER_VERSIONS, SITE_NAME)
]


@dataclass(frozen=True)
class StageStatus:
    """The status of one stage for this document."""

    stage: str
    title: str
    status: str | None
    attempts: int | None
    at: Any
    took: Any
    error_code: str | None
    error_message: str | None
    job_id: int | None = None

    @property
    def remedy(self) -> str | None:
        return job_error_class(self.error_code).remedy if self.error_code else None


def show(request: Request) -> Response:
    row, other_versions = read_document(request)
    search_text = paging.parse_text(request.query_params.get("q", ""), MAX_LENGTH)
    files, page_count = read_files(request.app.state.storage_dir, row)
    number = min(paging.parse_page(request.query_params.get("page", "")), max(page_count, 1))
    page = _read_page(files, number) if page_count else None
    text = _highlight(page.text, search_text) if page and page.text else None
    place = _place(row, number)
    site_name = read_site_name(request.app.state.pool, row["subdomain"])
    return render(
        "document.html",
        row=row,
        other_versions=other_versions,
        stages=_stages(row),
        files=files,
        page_count=page_count,
        number=number,
        page=page,
        has_pdf=_pdf(files) is not None,
        has_text=bool(page_count and files and files.exist),
        has_searchable=_has_ocr_text(files),
        has_original=_original(files) is not None,
        original_name=NAMES[files.document.media_type].partition(" ")[2] if files else "",
        original_extension=files.document.extension if files else "",
        can_render=can_render(),
        text=text,
        has_matches=text is not None and HIGHLIGHT[0] in text,
        permanent_path=page_path(*place),
        site_name=site_name,
        citation=cite(site_name, *place[1:], row["source_url"] if is_web_url(row["source_url"]) else None),
        search_text=search_text,
        link=_link_to(row, search_text),
        origins=ORIGINS,
    )


async def image(request: Request) -> Response:
    """The stored image of a page, or one rendered from the PDF now."""
    number = request.path_params["page"]
    files, stored = await run_in_threadpool(_read_image, request, number)
    if stored is not None:
        return _png(stored)
    pdf = await run_in_threadpool(_pdf, files)
    if pdf is None:
        raise HTTPException(404, "There is no image of this page on this machine.")
    return await rendered_page(request, pdf, number)


async def rendered_page(request: Request, pdf: StoragePath, number: int) -> Response:
    """The image of a page, rendered now in a process with limits. Waiting for a slot blocks no thread."""
    render_slots: asyncio.Semaphore = request.app.state.render_slots
    try:
        async with render_slots:
            return _png(await run_in_threadpool(_render_page, pdf, number))
    except (RenderFailed, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise HTTPException(503, f"The page could not be rendered: {reason}.") from error


async def matches(request: Request) -> Response:
    """The boxes of the words that a search found on a page, as an SVG that is laid over the page's image."""
    number = request.path_params["page"]
    search_text = paging.parse_text(request.query_params.get("q", ""), MAX_LENGTH)
    boxes = await run_in_threadpool(_read_words, request, number)
    if isinstance(boxes, Path | ObjectPath):
        render_slots: asyncio.Semaphore = request.app.state.render_slots
        try:
            async with render_slots:
                boxes = await run_in_threadpool(_layer_words, boxes, number)
        except (ChildFailed, OSError) as error:
            logger.warning("document %s: no word boxes of page %s: %s", request.path_params["document"], number, error)
            boxes = None
    found = await run_in_threadpool(find_matches, boxes.words, search_text) if boxes else []
    return Response(draw_boxes(found), media_type="image/svg+xml", headers=_CACHE_HEADERS)


def _render_page(pdf: StoragePath, number: int) -> bytes:
    with local_copy(pdf) as file:
        return render_page(file, number)


def _layer_words(pdf: StoragePath, number: int) -> WordBoxes:
    with local_copy(pdf) as file:
        return layer_words(file, number)


def _read_words(request: Request, number: int) -> WordBoxes | StoragePath | None:
    """The stored word boxes, or the PDF that they can be computed from."""
    row, _ = read_document(request)
    files, page_count = read_files(request.app.state.storage_dir, row)
    if not files or not 1 <= number <= page_count:
        return None
    try:
        return files.stored_words(number) or (files.pdf if files.has_text_layer(number) else None)
    except OSError:
        return None


def original(request: Request) -> Response:
    """The file as it was fetched, as a download: its content is untrusted, so it is never displayed inline. A web
    page is sent as plain text, so that no browser runs its scripts in the origin of the dashboard."""
    row, _ = read_document(request)
    files, _ = read_files(request.app.state.storage_dir, row)
    fetched = _original(files)
    if fetched is None or files is None or request.path_params["extension"] != files.document.extension:
        raise HTTPException(404, "The file of this document is not on this machine.")
    document = files.document
    name = f"{document.subdomain} {folder_name(document.meeting)} {document.stem}.{document.extension}"
    media_type = "text/plain" if document.media_type == HTML else document.media_type
    # The local copy of an object is kept until it is sent.
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(local_copy(fetched))
        except OSError as error:
            raise HTTPException(503, f"The storage cannot be read: {error.strerror}.") from error
        sent = BackgroundTask(stack.pop_all().close)
    return FileResponse(file, media_type=media_type, filename=name, headers=_CACHE_HEADERS, background=sent)


def _highlight(text: str, search_text: str) -> str:
    """A query that cannot be parsed highlights nothing: the search page reports it."""
    try:
        return parse(search_text).highlight(text)
    except InvalidQuery:
        return text


def _place(row: DictRow, number: int) -> tuple[str, str, str, str, int]:
    """What identifies a page in the archive: site, kind, date, meeting and page."""
    meeting = row["meeting"] if row["occurrence"] == 1 else f"{row['meeting']} ({row['occurrence']})"
    return row["subdomain"], row["kind"], row["date"].isoformat(), meeting, number


def _read_image(request: Request, number: int) -> tuple[DocumentFiles | None, bytes | None]:
    row, _ = read_document(request)
    files, page_count = read_files(request.app.state.storage_dir, row)
    if not files or not 1 <= number <= page_count:
        return None, None
    try:
        return files, files.image(number)
    except OSError:
        return files, None


def _png(content: bytes) -> Response:
    return Response(content, media_type="image/png", headers=_CACHE_HEADERS)


def _pdf(files: DocumentFiles | None) -> StoragePath | None:
    try:
        return files.pdf if files else None
    except OSError:
        return None


def _has_ocr_text(files: DocumentFiles | None) -> bool:
    try:
        return files is not None and files.has_ocr_text
    except OSError:
        return False


def _original(files: DocumentFiles | None) -> StoragePath | None:
    try:
        return files.original if files else None
    except OSError:
        return None


def read_document(request: Request) -> tuple[DictRow, list[DictRow]]:
    pool: ReadOnlyPool = request.app.state.pool
    number, subdomain = request.path_params["document"], request.path_params["subdomain"].replace("\0", "")
    if number <= _MAX_ID:
        with pool.transaction() as connection:
            values = {"id": number, "subdomain": subdomain}
            for row in fetch_rows(connection, _DOCUMENT, values):
                return row, fetch_rows(connection, _OTHER_VERSIONS, values | {"lineage_id": row["lineage_id"]})
    raise HTTPException(404, f"{subdomain} has no document {number}.")


def read_files(storage_dir: StoragePath | None, row: DictRow) -> tuple[DocumentFiles | None, int]:
    """The files, if this machine has a storage, and the number of pages."""
    columns = ("id", "subdomain", "kind", "meeting", "date", "occurrence", "revision", "sha256")
    extension = STORED_EXTENSIONS[media_type_of(row["storage_key"] or "")]
    document = replace(Document(*(row[name] for name in columns)), extension=extension)
    try:
        files = document_files(storage_dir, document)
    except OSError as error:
        raise HTTPException(503, f"The storage on this machine cannot be read: {error.strerror}.") from error
    page_count = files.manifest.page_count if files and files.manifest else None
    return files, page_count or row["page_count"] or 0


def _read_page(files: DocumentFiles | None, number: int) -> PageView | None:
    try:
        return files.page(number) if files and files.exist else None
    except OSError as error:
        raise HTTPException(503, f"The storage on this machine cannot be read: {error.strerror}.") from error


def _stages(row: DictRow) -> list[StageStatus]:
    fetch_status = "processed" if row["sha256"] else "failed_terminal" if row["fetch_error_code"] else None
    fetched_at = row["fetched_at"] or row["fetch_failed_at"]
    return [
        StageStatus(
            "fetch", "Fetch", fetch_status, None, fetched_at, None, row["fetch_error_code"], row["fetch_error_message"]
        ),
        *(
            StageStatus(
                stage,
                stage_name(stage),
                row[f"{stage}_status"],
                row[f"{stage}_attempts"],
                row[f"{stage}_processed_at"] or row[f"{stage}_last_attempt_at"],
                row[f"{stage}_took"],
                row[f"{stage}_error_code"] if row[f"{stage}_status"] != "processed" else None,
                row[f"{stage}_error_message"],
                row[f"{stage}_job_id"],
            )
            for stage in ("ocr", "extraction")
        ),
    ]


def _link_to(row: DictRow, search_text: str) -> Callable[..., str]:
    def link(page: int) -> str:
        query = urlencode({"page": page} | ({"q": search_text} if search_text else {}))
        return f"/sites/{quote(row['subdomain'])}/documents/{row['id']}?{query}#pages"

    return link
