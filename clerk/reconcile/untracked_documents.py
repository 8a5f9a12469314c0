"""Imports documents that are in storage but not in the database, which was restored from an older backup.

A document with complete texts is imported as processed, so that OCR is not repeated. A later fetch of the same content
recognises it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from clerk.archive import content_hash
from clerk.documents import integrity, repository, storage_scan
from clerk.documents.media_types import PDF, type_of_content
from clerk.documents.sanitize import folder_name
from clerk.documents.storage import Document, SiteStorage, read_head, sha256_file
from clerk.documents.storage_import import StoredDocument, import_stored
from clerk.object_storage.path import StoragePath
from clerk.pipeline import engine
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import SiteCheck

_HEAD_SIZE = 1024
_MEETING_NAMES = "select meeting from minutes union select meeting from agendas order by 1"


def find(connection: Connection, check: SiteCheck) -> list[Repair]:
    storage = check.storage
    known = repository.list_documents(connection, check.site.subdomain)
    # By the folder of the texts: texts alone do not say of which type the file was.
    paths = {storage.texts(document) for document in known}
    untracked = [document for document in storage_scan.find_documents(storage) if storage.texts(document) not in paths]
    if not untracked:
        return []
    names = {folder_name(document.meeting): document.meeting for document in known}
    repairs = []
    for document in untracked:
        name = names.get(document.meeting) or _name_in_archive(storage, document.meeting) or document.meeting
        names[document.meeting] = name
        if (stored := _read_stored(storage, replace(document, meeting=name))) is None:
            continue
        if stored.page_count is None:
            if check.site.is_active and check.site.phase != 1:
                continue  # imported after the run: this one would not process it
            if not check.site.is_active:
                check.require_run(2)
        repairs.append(_repair(check, stored))
    return repairs


def _read_stored(storage: SiteStorage, document: Document) -> StoredDocument | None:
    """None if neither its PDF nor its texts are intact."""
    pdf = storage.pdf(document)
    sha256, size = (sha256_file(pdf), pdf.stat().st_size) if _is_readable(pdf, document) else (None, None)
    texts = integrity.texts_status(storage, replace(document, sha256=sha256), full=True)
    manifest = texts.manifest if (texts.are_complete if sha256 else texts.are_intact) else None
    if sha256 is None and manifest is None:
        return None
    known = replace(document, sha256=sha256 or (manifest.pdf_sha256 if manifest else None))
    return StoredDocument(known, storage.storage_key(document), size, manifest.page_count if manifest else None)


def _is_readable(path: StoragePath, document: Document) -> bool:
    """Whether the file exists, with the content that its extension says."""
    try:
        head = read_head(path, _HEAD_SIZE)
    except FileNotFoundError:
        return False
    return b"%PDF-" in head if document.media_type == PDF else type_of_content(head) == document.media_type


def _name_in_archive(storage: SiteStorage, folder: str) -> str | None:
    """The meeting's name as the source spells it. The compiled archive has it."""
    try:
        with content_hash.open_readonly(storage.database) as connection:
            return next((name for (name,) in connection.execute(_MEETING_NAMES) if folder_name(name) == folder), None)
    except sqlite3.DatabaseError:
        return None


def _repair(check: SiteCheck, stored: StoredDocument) -> Repair:
    document = stored.document

    def import_document(connection: Connection) -> bool:
        content_item_id = import_stored(connection, stored)
        if content_item_id is None:
            return False
        if stored.page_count is not None:
            engine.mark_processed(connection, content_item_id, stored.page_count)
        else:
            check.reasons.append("untracked documents")
        return True

    is_processed = stored.page_count is not None
    return Repair(
        kind="untracked-document",
        subdomain=document.subdomain,
        run_id=check.site.run_id,
        stage="ocr" if is_processed else "fetch",
        found=f"{document.kind} of {document.meeting} {document.stem} is in storage but not in the database",
        action="import it as processed" if is_processed else "import it, to be processed",
        why="the database is older than the storage",
        apply=import_document,
        immediate=True,
    )
