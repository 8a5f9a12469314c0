"""Imports a legacy document: puts its files where clerk expects them and writes a manifest.

Files with other names (the first layout, folder names with spaces, page numbers with leading zeros) get a hard link at
the expected path, and the original stays. Text files are never modified; a replaced file is backed up first.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from filecmp import cmp
from pathlib import Path
from typing import Any

from clerk.documents import legacy_backup, manifest
from clerk.documents.manifest import Manifest, ManifestUnreadable, Page
from clerk.documents.sanitize import clean_text, folder_name
from clerk.documents.storage import Document, SiteStorage, fsync, make_folder, sha256_file
from clerk.errors import TextLost
from clerk.legacy.disk import DocumentState, LegacyDocument

NOTE = "imported from legacy clerk"
LINK_LIST = "second-names.txt"


@dataclass(frozen=True)
class ImportedDocument:
    """A document in the format of `clerk_import_legacy_site`."""

    kind: str
    meeting: str
    date: str
    occurrence: int
    revision: int
    status: str
    error_code: str | None = None
    error_message: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    page_count: int | None = None
    storage_key: str | None = None
    processed_at: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class TextUnreadable(Exception):
    """A text file exists but cannot be used."""


def place(storage: SiteStorage[Path], sources: Iterable[LegacyDocument]) -> list[tuple[Document, LegacyDocument]]:
    """Assign a clerk document to each legacy document.

    Folders with the same name in clerk (`City Council`, `CityCouncil`) belong to one body. Different texts of one day
    become separate occurrences; duplicates are dropped."""
    placed: list[tuple[Document, LegacyDocument]] = []

    def order(source: LegacyDocument) -> tuple[int, int, bool]:
        return source.revision, source.occurrence, folder_name(source.meeting) != source.meeting

    for source in sorted(sources, key=order):
        meeting = clean_text(source.meeting) or "Meeting"
        document = Document(0, storage.subdomain, source.kind, meeting, source.date, source.occurrence, source.revision)
        same_day = [pair for pair in placed if _day(pair[0]) == _day(document)]
        if any(_is_duplicate(source, other) for _, other in same_day):
            continue
        taken = {(other.occurrence, other.revision) for other, _ in same_day}
        while (document.occurrence, document.revision) in taken:
            document = replace(document, occurrence=document.occurrence + 1)
        placed.append((document, source))
    return placed


def _day(document: Document) -> tuple[str, str, str]:
    return document.kind, folder_name(document.meeting).casefold(), document.date.isoformat()


def _is_duplicate(source: LegacyDocument, other: LegacyDocument) -> bool:
    """It has the same texts as the other or, without texts, the same PDF; or it has no files."""
    return other.meeting != source.meeting and (not _files(source) or _hashes(source) == _hashes(other))


def _files(source: LegacyDocument) -> list[Path]:
    return list(source.texts.values()) or ([source.pdf] if source.pdf is not None else [])


def _hashes(source: LegacyDocument) -> list[str]:
    return [sha256_file(file) for file in _files(source)]


def import_document(
    storage: SiteStorage[Path], document: Document, source: LegacyDocument, dry_run: bool = False
) -> ImportedDocument:
    """Link the files and write the manifest. Raises OSError if the disk fails."""
    state, problem = source.state()
    imported = ImportedDocument(
        document.kind, document.meeting, document.date.isoformat(), document.occurrence, document.revision, "pending"
    )
    if source.pdf is not None:
        imported = replace(
            imported,
            sha256=sha256_file(source.pdf),
            size_bytes=source.pdf.stat().st_size,
            storage_key=storage.storage_key(document),
        )
        if not dry_run:
            _link(storage, {storage.pdf(document): source.pdf})
    if state is DocumentState.TEXT:
        try:
            pages = _pages(source)
        except TextUnreadable as error:
            state, problem = (DocumentState.PDF if source.pdf is not None else DocumentState.NOTHING), str(error)
    if state is DocumentState.PDF:
        return imported
    if state is DocumentState.NOTHING:
        message = f"the PDF is missing, and {problem}; the next fetch may restore it"
        return replace(imported, status="failed_terminal", error_code=TextLost.code, error_message=message)
    new_manifest = Manifest(imported.sha256, len(pages), "", pages, NOTE)
    if not dry_run:
        _link_texts(storage, document, source, new_manifest)
    written_at = min(datetime.now(UTC).timestamp(), max(path.stat().st_mtime for path in source.texts.values()))
    processed_at = datetime.fromtimestamp(written_at, UTC).isoformat()
    return replace(imported, status="processed", page_count=len(pages), processed_at=processed_at)


def _pages(source: LegacyDocument) -> tuple[Page, ...]:
    pages = []
    for number, path in source.texts.items():
        content = path.read_bytes()
        try:
            characters = len(content.decode())
        except UnicodeDecodeError as error:
            raise TextUnreadable(f"the text of page {number} is not UTF-8") from error
        pages.append(Page(number, manifest.LEGACY, characters, None, 0, 0, manifest.digest(content)))
    return tuple(pages)


def _link_texts(storage: SiteStorage[Path], document: Document, source: LegacyDocument, new: Manifest) -> None:
    """Link the texts, then write the manifest, unless an existing one matches the texts: it has more details."""
    if source.texts != source.pages:
        _clear_first_page(storage, document, source.texts[1])
    _link(storage, {storage.page_text(document, number): path for number, path in source.texts.items()})
    path = storage.manifest(document)
    try:
        existing = manifest.load(path)
    except ManifestUnreadable:
        existing = None
    if existing is None or [page.sha256 for page in existing.pages] != [page.sha256 for page in new.pages]:
        manifest.save(path, new)


def _clear_first_page(storage: SiteStorage[Path], document: Document, whole_text: Path) -> None:
    """Back up and remove the first page of an interrupted OCR: the single file with all of the text replaces it."""
    first = storage.page_text(document, 1)
    if first.exists() and not cmp(first, whole_text, shallow=False):
        legacy_backup.back_up_files(storage, document)
        first.unlink()


def _link(storage: SiteStorage[Path], links: Mapping[Path, Path]) -> None:
    """Link existing files (values) to the wanted paths (keys) in one folder.

    New links are added to LINK_LIST first: legacy clerk would take them for further documents.
    """
    for wanted, path in links.items():
        if wanted.exists() and not wanted.samefile(path) and not cmp(wanted, path, shallow=False):
            raise FileExistsError(errno.EEXIST, f"blocks the link to {path}", str(wanted))
    new = {wanted: path for wanted, path in links.items() if not wanted.exists()}
    if not new:
        return
    names = storage.folder / legacy_backup.FOLDER / LINK_LIST
    make_folder(names.parent)
    with names.open("a", encoding="utf-8") as file:
        file.writelines(f"{wanted.relative_to(storage.folder)}\n" for wanted in new)
    fsync(names)
    fsync(names.parent)
    for wanted, path in new.items():
        legacy_backup.hardlink_or_copy(path, wanted)
    for folder in {wanted.parent for wanted in new}:
        fsync(folder)
