"""Downloads of a document in `clerk serve`: its text, and the file as it was fetched if the storage has it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from datasette.utils.asgi import NotFound, Request, Response, asgi_send_file

from clerk.archive.hits import read_texts
from clerk.archive.pages import TABLES
from clerk.datasette_app.lazy_datasette import ArchiveDatasette
from clerk.datasette_app.site_pages import find_archive, url_part
from clerk.documents.media_types import HTML, NAMES, PDF
from clerk.documents.originals import find_original
from clerk.documents.sanitize import folder_name
from clerk.documents.storage import SiteStorage, local_copy

_ROUTE = "/-/documents"


def describe_files(
    datasette: ArchiveDatasette, site: str, kind: str, day: str, meeting: str, texts: Mapping[int, str]
) -> dict[str, Any]:
    """For a template: the addresses of the text and of the original, and what the original is."""
    path = str(datasette.urls.path("/".join([_ROUTE, *(quote(part, safe="") for part in (site, kind, day, meeting))])))
    original = find_original(SiteStorage(datasette.storage_dir, site), kind, day, meeting, texts)
    name = None
    if original is not None:
        media_type = original[0].media_type
        name = "PDF" if media_type == PDF else NAMES[media_type].partition(" ")[2].capitalize()
    return {"text_path": f"{path}/text", "original_path": f"{path}/original" if name else None, "original_name": name}


async def _read(datasette: ArchiveDatasette, request: Request) -> tuple[tuple[str, str, str, str], dict[int, str]]:
    """Site, kind, date and meeting, and the texts of the pages."""
    site, kind, day, meeting = (url_part(request, part) for part in ("site", "kind", "date", "meeting"))
    archive = await find_archive(datasette, site)

    def read(connection: sqlite3.Connection) -> dict[int, str]:
        return read_texts(connection, kind, day, meeting)

    texts = await archive.execute_fn(read) if kind in TABLES else {}
    if not texts:
        raise NotFound("The archive has no such document")
    return (site, kind, day, meeting), texts


async def send_text(datasette: ArchiveDatasette, request: Request) -> Response:
    """The text of all pages, each under its number."""
    (site, kind, day, meeting), texts = await _read(datasette, request)
    text = "".join(f"[Page {number} of {len(texts)}]\n\n{page}\n\n" for number, page in texts.items())
    headers = {"Content-Disposition": f'attachment; filename="{_file_name(site, kind, day, meeting)}.txt"'}
    return Response(text, content_type="text/plain; charset=utf-8", headers=headers)


async def send_original(datasette: ArchiveDatasette, request: Request, send: Any) -> None:
    """The file as it was fetched, as a download. A web page is sent as plain text, so that no browser runs its
    scripts."""
    place, texts = await _read(datasette, request)
    storage = SiteStorage(datasette.storage_dir, place[0])
    found = await asyncio.to_thread(find_original, storage, *place[1:], texts)
    if found is None:
        raise NotFound("The original of this document is not on this server")
    document, path = found
    with contextlib.ExitStack() as stack:
        file = await asyncio.to_thread(stack.enter_context, local_copy(path))
        content_type = "text/plain" if document.media_type == HTML else document.media_type
        name = f"{_file_name(*place)}.{document.extension}"
        await asgi_send_file(send, file, filename=name, content_type=content_type)


def _file_name(site: str, kind: str, day: str, meeting: str) -> str:
    """In ASCII: headers hold no other letters."""
    return f"{site} {folder_name(meeting)} {day} {kind}".encode("ascii", "ignore").decode()


ROUTES = [
    (rf"^{_ROUTE}/(?P<site>[^/]+)/(?P<kind>[a-z]+)/(?P<date>[^/]+)/(?P<meeting>.+)/text$", send_text),
    (rf"^{_ROUTE}/(?P<site>[^/]+)/(?P<kind>[a-z]+)/(?P<date>[^/]+)/(?P<meeting>.+)/original$", send_original),
]
