"""What lies in a site's folder: documents by their paths, and what dead processes left.

A path tells kind, folder of the meeting, date, occurrence and revision. It does not tell the meeting's name as the
source writes it: a document from here has its folder's name for that.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from clerk.documents import manifest
from clerk.documents.sanitize import folder_name
from clerk.documents.storage import Document, SiteStorage, sha256_file

_STEM = re.compile(r"(\d{4}-\d{2}-\d{2})(?:_([1-9]\d{0,3}))?(?:_r([1-9]\d{0,3}))?")
_BASES = {"minutes": ".", "agenda": "_agendas"}
STALE_AFTER = 86_400.0
"""Seconds after which a temporary file is some dead process's."""


def find_documents(storage: SiteStorage) -> list[Document]:
    """Everything that has a PDF or a folder of texts, in the order of its path."""
    found = {
        (kind, folder, stem): document
        for kind, base in _BASES.items()
        for folder, stem in sorted({*_pdfs(storage.folder / base), *_texts(storage.folder / base)})
        if (document := _document(storage.subdomain, kind, folder, stem)) is not None
    }
    return list(found.values())


def path_conflicts(storage: SiteStorage, document: Document) -> bool:
    """The PDF or the texts of another document lie where this one would go."""
    pdf = storage.pdf(document)
    if pdf.is_file() and sha256_file(pdf) != document.sha256:
        return True
    try:
        read = manifest.load(storage.manifest(document))
    except manifest.ManifestUnreadable:
        return True
    return read is not None and read.pdf_sha256 not in (None, document.sha256)


def stale_temp_files(storage: SiteStorage, older_than: float = STALE_AFTER) -> list[Path]:
    """Temporary files that nobody has touched for so many seconds."""
    before = time.time() - older_than
    found = []
    for path in storage.folder.rglob("*.part"):
        with contextlib.suppress(FileNotFoundError):  # its process was not dead after all
            if path.lstat().st_mtime < before and not path.is_dir():
                found.append(path)
    return sorted(found)


def _pdfs(base: Path) -> Iterator[tuple[str, str]]:
    for path in base.glob("pdfs/*/*.pdf"):
        yield path.parent.name, path.stem


def _texts(base: Path) -> Iterator[tuple[str, str]]:
    for path in base.glob("txt/*/*"):
        yield path.parent.name, path.name


def _document(subdomain: str, kind: str, folder: str, stem: str) -> Document | None:
    """None for a path that clerk would not have made."""
    match = _STEM.fullmatch(stem)
    if match is None or folder_name(folder) != folder:
        return None
    try:
        day = date.fromisoformat(match[1])
    except ValueError:
        return None
    document = Document(0, subdomain, kind, folder, day, int(match[2] or 1), int(match[3] or 1))
    return document if document.stem == stem else None
