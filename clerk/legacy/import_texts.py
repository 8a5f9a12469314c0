"""Takes a document of the older system over: its files to where clerk looks for them, with a manifest.

Texts and PDFs that lie elsewhere (the first layout, folders with blanks in their names, page numbers with noughts) get
a second name; the older ones stay. The texts themselves are never written, and what a second name takes the place of is
set aside.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from filecmp import cmp
from pathlib import Path
from typing import Any

from clerk.documents import legacy_backup, manifest
from clerk.documents.manifest import Manifest, ManifestUnreadable, Page
from clerk.documents.sanitize import clean_text, folder_name
from clerk.documents.storage import Document, SiteStorage, sha256_file
from clerk.errors import TextLost
from clerk.legacy.disk import DocumentState, OldDocument

NOTE = "read by the older system"
SECOND_NAMES = "second-names.txt"


@dataclass(frozen=True)
class TakenOver:
    """A document as `clerk_import_legacy_site` takes it."""

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
    read_at: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class TextUnreadable(Exception):
    """A text that is there and cannot be used."""


def place(storage: SiteStorage, found: Iterable[OldDocument]) -> list[tuple[Document, OldDocument]]:
    """Which document is which here. Folders that would share a name (`City Council`, `CityCouncil`) are meetings of
    one body: of two different texts for a day neither may hide the other, and of two equal ones one is enough."""
    placed: list[tuple[Document, OldDocument]] = []
    for old in sorted(found, key=lambda old: (old.revision, old.occurrence, folder_name(old.meeting) != old.meeting)):
        meeting = clean_text(old.meeting) or "Meeting"
        document = Document(0, storage.subdomain, old.kind, meeting, old.date, old.occurrence, old.revision)
        same_day = [one for one in placed if _day(one[0]) == _day(document)]
        if any(_adds_nothing(old, other) for _, other in same_day):
            continue
        taken = {(one.occurrence, one.revision) for one, _ in same_day}
        while (document.occurrence, document.revision) in taken:
            document = replace(document, occurrence=document.occurrence + 1)
        placed.append((document, old))
    return placed


def _day(document: Document) -> tuple[str, str, str]:
    return document.kind, folder_name(document.meeting).casefold(), document.date.isoformat()


def _adds_nothing(old: OldDocument, other: OldDocument) -> bool:
    """The same words, or, without any, the same PDF, or nothing at all."""
    return other.meeting != old.meeting and (not _files(old) or _fingerprints(old) == _fingerprints(other))


def _files(old: OldDocument) -> list[Path]:
    return list(old.texts.values()) or ([old.pdf] if old.pdf is not None else [])


def _fingerprints(old: OldDocument) -> list[str]:
    return [sha256_file(file) for file in _files(old)]


def import_document(storage: SiteStorage, document: Document, old: OldDocument, rehearse: bool = False) -> TakenOver:
    """Raises OSError when the disk does."""
    holding, problem = old.holding()
    taken = TakenOver(
        document.kind, document.meeting, document.date.isoformat(), document.occurrence, document.revision, "pending"
    )
    if old.pdf is not None:
        taken = replace(
            taken,
            sha256=sha256_file(old.pdf),
            size_bytes=old.pdf.stat().st_size,
            storage_key=storage.storage_key(document),
        )
        if not rehearse:
            _also_as(storage, old.pdf, storage.pdf(document))
    if holding is DocumentState.TEXT:
        try:
            pages = _pages(old)
        except TextUnreadable as error:
            holding, problem = (DocumentState.PDF if old.pdf is not None else DocumentState.NOTHING), str(error)
    if holding is DocumentState.PDF:
        return taken
    if holding is DocumentState.NOTHING:
        message = f"the PDF is gone, and {problem}; the next fetch may bring it back"
        return replace(taken, status="failed_terminal", error_code=TextLost.code, error_message=message)
    made = Manifest(taken.sha256, len(pages), "", pages, NOTE)
    if not rehearse:
        _put(storage, document, old, made)
    read_at = min(datetime.now(UTC).timestamp(), max(path.stat().st_mtime for path in old.texts.values()))
    return replace(
        taken, status="processed", page_count=len(pages), read_at=datetime.fromtimestamp(read_at, UTC).isoformat()
    )


def _pages(old: OldDocument) -> tuple[Page, ...]:
    pages = []
    for number, path in old.texts.items():
        content = path.read_bytes()
        try:
            characters = len(content.decode())
        except UnicodeDecodeError as error:
            raise TextUnreadable(f"the text of page {number} is not UTF-8") from error
        pages.append(Page(number, manifest.LEGACY, characters, None, 0, 0, manifest.digest(content)))
    return tuple(pages)


def _put(storage: SiteStorage, document: Document, old: OldDocument, made: Manifest) -> None:
    """The manifest last. One that is there already and fits the texts knows more than ours would."""
    if old.texts != old.pages:
        _clear_first_page(storage, document, old.texts[1])
    for number, path in old.texts.items():
        _also_as(storage, path, storage.page_text(document, number))
    path = storage.manifest(document)
    try:
        known = manifest.load(path)
    except ManifestUnreadable:
        known = None
    if known is None or [page.sha256 for page in known.pages] != [page.sha256 for page in made.pages]:
        manifest.save(path, made)


def _clear_first_page(storage: SiteStorage, document: Document, whole_text: Path) -> None:
    """Of a reading that was left half-done beside the one file with all of the text."""
    first = storage.page_text(document, 1)
    if first.exists() and not cmp(first, whole_text, shallow=False):
        legacy_backup.back_up_files(storage, document)
        first.unlink()


def _also_as(storage: SiteStorage, path: Path, wanted: Path) -> None:
    """Written down first, for whoever goes back: to the older system a second name is a second document."""
    if not wanted.exists():
        names = storage.folder / legacy_backup.FOLDER / SECOND_NAMES
        names.parent.mkdir(exist_ok=True)
        with names.open("a", encoding="utf-8") as file:
            file.write(f"{wanted.relative_to(storage.folder)}\n")
        legacy_backup.hardlink_or_copy(path, wanted)
    elif not wanted.samefile(path) and not cmp(wanted, path, shallow=False):
        raise FileExistsError(errno.EEXIST, f"is in the way of {path}", str(wanted))
