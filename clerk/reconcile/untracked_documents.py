"""Documents in storage that the database does not know: it was restored from a backup that is older than they are.

Each gets its row, and counts as read if its texts are complete: nothing that is finished is done again. A later fetch
of the same content recognises it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

from clerk.archive import content_hash
from clerk.documents import integrity, repository, storage_scan
from clerk.documents.sanitize import folder_name
from clerk.documents.storage import Document, SiteStorage, sha256_file
from clerk.documents.storage_import import StoredDocument, import_stored
from clerk.pipeline import engine
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import SiteCheck

_HEAD = 1024
_NAMES = (
    "select distinct meeting from minutes where page_image like ? escape '\\'"
    " union select distinct meeting from agendas where page_image like ? escape '\\' order by 1"
)


def find(connection: Connection, look: SiteCheck) -> list[Repair]:
    storage = look.storage
    known = repository.list_documents(connection, look.site.subdomain)
    paths = {storage.pdf(document) for document in known}
    strange = [document for document in storage_scan.find_documents(storage) if storage.pdf(document) not in paths]
    if not strange:
        return []
    names = {folder_name(document.meeting): document.meeting for document in known}
    repairs = []
    for document in strange:
        name = names.get(document.meeting) or _name_in_archive(storage, document.meeting) or document.meeting
        names[document.meeting] = name
        if (stored := _stored(storage, replace(document, meeting=name))) is None:
            continue
        if stored.page_count is None:
            if look.site.going and look.site.phase != 1:
                continue  # it would wait for the end of the run: adopted then
            if not look.site.going:
                look.wants_run(2)
        repairs.append(_repair(look, stored))
    return repairs


def _stored(storage: SiteStorage, document: Document) -> StoredDocument | None:
    """None if there is nothing whole of it."""
    pdf = storage.pdf(document)
    sha256, size = (sha256_file(pdf), pdf.stat().st_size) if _is_pdf(pdf) else (None, None)
    texts = integrity.texts_status(storage, replace(document, sha256=sha256), full=True)
    read = texts.manifest if (texts.are_complete if sha256 else texts.are_intact) else None
    if sha256 is None and read is None:
        return None
    known = replace(document, sha256=sha256 or (read.pdf_sha256 if read else None))
    return StoredDocument(known, storage.storage_key(document), size, read.page_count if read else None)


def _is_pdf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"%PDF-" in file.read(_HEAD)
    except FileNotFoundError:
        return False


def _name_in_archive(storage: SiteStorage, folder: str) -> str | None:
    """As the source wrote it: a compiled archive has it beside the path of the page's image."""
    escaped = folder.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")
    try:
        with content_hash.open_readonly(storage.database) as connection:
            found = connection.execute(_NAMES, [f"/{escaped}/%", f"/\\_agendas/{escaped}/%"])
            return next((name for (name,) in found if folder_name(name) == folder), None)
    except sqlite3.DatabaseError:
        return None


def _repair(look: SiteCheck, stored: StoredDocument) -> Repair:
    document = stored.document

    def adopt(connection: Connection) -> bool:
        item = import_stored(connection, stored)
        if item is None:
            return False
        if stored.page_count is not None:
            engine.mark_processed(connection, item, stored.page_count)
        else:
            look.reasons.append("documents that were not known")
        return True

    read = stored.page_count is not None
    return Repair(
        kind="unknown-document",
        subdomain=document.subdomain,
        run_id=look.site.run_id,
        stage="ocr" if read else "fetch",
        found=f"the storage has {document.kind} of {document.meeting} {document.stem}, the database does not know it",
        do="entered as read" if read else "entered, to be read",
        why="the database is older than the storage",
        apply=adopt,
        immediate=True,
    )
