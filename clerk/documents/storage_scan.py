"""Scan of a site's folder for documents and for temporary files of dead processes.

A path contains kind, folder of the meeting, date, occurrence and revision.
Limitation: it does not contain the meeting's name as the source writes it; documents found here have the folder name.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

from clerk.documents import manifest
from clerk.documents.kinds import KIND_FOLDERS
from clerk.documents.media_types import STORED_EXTENSIONS
from clerk.documents.sanitize import folder_name
from clerk.documents.storage import Document, SiteStorage, sha256_file
from clerk.object_storage.path import ObjectPath, StoragePath

_STEM = re.compile(r"(\d{4}-\d{2}-\d{2})(?:_([1-9]\d{0,3}))?(?:_r([1-9]\d{0,3}))?")
STALE_AFTER = 86_400.0
"""Seconds after which a temporary file is assumed to belong to a dead process."""


def find_documents(storage: SiteStorage) -> list[Document]:
    """Return all documents that have a file as fetched or a folder of texts, sorted by path."""
    documents = []
    for kind, base in KIND_FOLDERS.items():
        folder_of_kind = storage.folder.joinpath(base)
        extensions = dict.fromkeys(_texts(folder_of_kind), "pdf") | _originals(folder_of_kind)
        for (folder, stem), extension in sorted(extensions.items()):
            if (document := _parse_path(storage.subdomain, kind, folder, stem)) is not None:
                documents.append(replace(document, extension=extension))
    return documents


def path_conflicts(storage: SiteStorage, document: Document) -> bool:
    """Whether a PDF or texts of other content are at the path of a document."""
    pdf = storage.pdf(document)
    if pdf.is_file() and sha256_file(pdf) != document.sha256:
        return True
    try:
        existing = manifest.load(storage.manifest(document))
    except manifest.ManifestUnreadable:
        return True
    return existing is not None and existing.pdf_sha256 not in (None, document.sha256)


def stale_temp_files(storage: SiteStorage, older_than: float = STALE_AFTER) -> list[Path]:
    """Return temporary files that no process has written to for `older_than` seconds. In a bucket there are none: they
    are in the local cache, and the next fetch on that machine deletes them."""
    folder = storage.folder
    if isinstance(folder, ObjectPath):
        return []
    before = time.time() - older_than
    stale = []
    for path in folder.rglob("*.part"):
        with contextlib.suppress(FileNotFoundError):  # its process is alive and has renamed it
            if path.lstat().st_mtime < before and not path.is_dir():
                stale.append(path)
    return sorted(stale)


def _originals(base: StoragePath) -> dict[tuple[str, str], str]:
    """The extension of each file as fetched, by the folder of its meeting and its stem."""
    return {
        (path.parent.name, path.stem): extension
        for extension in STORED_EXTENSIONS.values()
        for path in base.glob(f"pdfs/*/*.{extension}")
    }


def _texts(base: StoragePath) -> Iterator[tuple[str, str]]:
    for path in base.glob("txt/*/*"):
        yield path.parent.name, path.name


def _parse_path(subdomain: str, kind: str, folder: str, stem: str) -> Document | None:
    """Return the document of a path; None if clerk does not create such a path."""
    match = _STEM.fullmatch(stem)
    if match is None or folder_name(folder) != folder:
        return None
    try:
        day = date.fromisoformat(match[1])
    except ValueError:
        return None
    document = Document(0, subdomain, kind, folder, day, int(match[2] or 1), int(match[3] or 1))
    return document if document.stem == stem else None
