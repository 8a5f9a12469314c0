"""Downloads of a document in `clerk serve`: its text, and the file as it was fetched if the storage has it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from datasette.utils.asgi import NotFound, Request, Response, asgi_send_file

from clerk.archive.hits import read_texts
from clerk.archive.pages import TABLES
from clerk.datasette_app.lazy_datasette import ArchiveDatasette
from clerk.datasette_app.site_pages import find_archive, url_part
from clerk.documents import manifest
from clerk.documents.media_types import HTML, NAMES, PDF, STORED_EXTENSIONS
from clerk.documents.sanitize import folder_name
from clerk.documents.storage import Document, SiteStorage, list_names, local_copy
from clerk.object_storage.path import ObjectPath, StoragePath

_ROUTE = "/-/documents"


def describe_files(
    datasette: ArchiveDatasette, site: str, kind: str, day: str, meeting: str, texts: Mapping[int, str]
) -> dict[str, Any]:
    """For a template: the addresses of the text and of the original, and what the original is."""
    path = str(datasette.urls.path("/".join([_ROUTE, *(quote(part, safe="") for part in (site, kind, day, meeting))])))
    original = _find_original(datasette, site, kind, day, meeting, texts)
    name = None
    if original is not None:
        media_type = original[0].media_type
        name = "PDF" if media_type == PDF else NAMES[media_type].partition(" ")[2].capitalize()
    return {"text_path": f"{path}/text", "original_path": f"{path}/original" if name else None, "original_name": name}


def _find_original(
    datasette: ArchiveDatasette, site: str, kind: str, day: str, meeting: str, texts: Mapping[int, str]
) -> tuple[Document, StoragePath] | None:
    """The stored file whose pages have the published texts: a folder can hold several meetings of a day, and revisions
    that are not published. None if this machine has no such file."""
    storage = SiteStorage(datasette.storage_dir, site)
    hashes = {page: manifest.digest(text.encode()) for page, text in texts.items()}
    with contextlib.suppress(OSError):
        for document in _candidates(storage, kind, day, meeting):
            try:
                stored = manifest.load(storage.manifest(document))
            except manifest.ManifestUnreadable:
                continue
            if stored is None or not hashes.items() <= {page.page: page.sha256 for page in stored.pages}.items():
                continue
            for extension in STORED_EXTENSIONS.values():
                fetched = replace(document, extension=extension)
                file = storage.pdf(fetched)
                if file.is_file() and _is_inside(file, storage.folder):
                    return fetched, file
    return None


def _candidates(storage: SiteStorage, kind: str, day: str, meeting: str) -> Iterator[Document]:
    """The stored documents of a day, the newest revision first. The archive names a second meeting of a day
    `City Council (2)`."""
    try:
        parsed_day = date.fromisoformat(day)
    except ValueError:
        return
    for name in dict.fromkeys((meeting, re.sub(r" \(\d+\)$", "", meeting))):
        document = Document(0, storage.subdomain, kind, name, parsed_day)
        stems = (
            re.fullmatch(rf"{re.escape(document.stem)}(?:_(\d{{1,6}}))?(?:_r(\d{{1,6}}))?", stem)
            for stem in list_names(storage.texts(document).parent)
        )
        found = [(int(stem[1] or 1), int(stem[2] or 1)) for stem in stems if stem]
        for occurrence, revision in sorted(found, key=lambda numbers: (numbers[0], -numbers[1])):
            yield replace(document, occurrence=occurrence, revision=revision)


def _is_inside(file: StoragePath, folder: StoragePath) -> bool:
    """A symbolic link must not lead out of the site's folder."""
    return isinstance(file, ObjectPath) or file.resolve().is_relative_to(cast("Path", folder).resolve())


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
    found = await asyncio.to_thread(_find_original, datasette, *place, texts)
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
