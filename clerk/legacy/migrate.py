"""`clerk migrate-stuck-sites`: imports the documents of legacy sites and opens runs for the stuck ones.

Each site is imported completely or not at all: files first, then its rows in one transaction. After an interruption the
command can be repeated: sites that have had a run are skipped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from psycopg import errors
from psycopg.types.json import Jsonb

from clerk.documents import legacy_backup
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import SiteStorage
from clerk.errors import ClerkError, SettingError
from clerk.legacy import disk, import_texts, tables
from clerk.legacy.import_texts import ImportedDocument
from clerk.legacy.tables import Connection, LegacyRow
from clerk.pipeline import engine


@dataclass
class MigratedSite:
    """The result for one site."""

    subdomain: str
    stuck_in: str | None
    """The stage in which it was stuck; None if it was not stuck."""
    phase: int | None = None
    run_id: int | None = None
    documents: Counter[str] = field(default_factory=Counter)
    """Ledger status → number of documents."""
    problems: list[str] = field(default_factory=list)
    skipped: str | None = None
    """Why it was not imported."""

    @property
    def total(self) -> int:
        return self.documents.total()

    def __str__(self) -> str:
        if self.skipped:
            return f"skipped: {self.skipped}"
        text = f"{self.documents['processed']}/{self.total} completed, {self.documents['failed_terminal']} failed"
        if pending := self.documents["pending"]:
            text += f", {pending} pending"
        return text + (" (starts with fetching)" if self.phase == 1 else "")


def migrate(
    connection: Connection,
    root: Path,
    *,
    every_site: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> Iterator[MigratedSite]:
    """Import stuck sites and yield each result. `every_site`: also import the other sites' documents, without a run."""
    rows = tables.read(connection).sites
    wanted = [
        row
        for row in rows
        if row.is_stuck or (every_site and not row.has_run and not _has_documents(connection, row.subdomain))
    ]
    if wanted:
        require_folders(root, rows)
        require_pdf_tool()
    progress(0, len(wanted))
    for number, row in enumerate(wanted, 1):
        yield migrate_site(connection, root, row, dry_run)
        progress(number, len(wanted))


def require_folders(root: Path, rows: Iterable[LegacyRow]) -> None:
    """Refuse a STORAGE_DIR that is not that of legacy clerk: every site would be imported as empty.

    Sites that were imported before count too, because the remaining ones may never have had a folder."""
    try:
        os.scandir(root).close()
    except OSError as error:
        raise SettingError(
            f"{root} cannot be read ({error.strerror})", "set STORAGE_DIR to the folder of legacy clerk"
        ) from error
    names = [row.subdomain for row in rows if (row.is_stuck or row.has_run) and is_subdomain(row.subdomain)]
    if names and not any(SiteStorage(root, name).folder.is_dir() for name in names):
        raise SettingError(
            f"none of the stuck sites has a folder in {root}",
            "set STORAGE_DIR to the folder of legacy clerk; if they never had files, create a folder for one of them",
        )


def require_pdf_tool() -> None:
    """Without page counts, a text that lacks its last pages would pass for complete."""
    if (missing := disk.missing_pdf_tool()) is not None:
        raise ClerkError("the pages of PDFs cannot be counted", missing)


def _has_documents(connection: Connection, subdomain: str) -> bool:
    query = "select 1 from content_items where subdomain = %s and kind <> 'archive' limit 1"
    return connection.execute(query, [subdomain]).fetchone() is not None


@dataclass
class StoredDocuments:
    """The documents of a site's folder, with their files where clerk expects them."""

    documents: list[ImportedDocument] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    is_complete: bool = True
    """All files could be used."""

    @property
    def statuses(self) -> Counter[str]:
        """Ledger status → number of documents."""
        return Counter(document.status for document in self.documents)

    def first_phase(self, stage: str) -> int:
        """The phase in which a site that stopped in this stage continues. Without a document, it fetches first."""
        return 1 if stage == "fetch" or not self.documents else 2


def import_files(storage: SiteStorage[Path], dry_run: bool) -> StoredDocuments:
    """Put the files of every document in their places. The manifests then list the texts that are complete."""
    legacy = disk.scan(storage.folder)
    stored = StoredDocuments(problems=list(legacy.problems), is_complete=legacy.is_complete)
    try:
        placed = import_texts.place(storage, legacy.documents)
    except OSError as error:
        placed, stored.is_complete = [], False
        stored.problems.append(f"its documents cannot be compared ({error})")
    for document, source in placed:
        try:
            stored.documents.append(import_texts.import_document(storage, document, source, dry_run))
        except OSError as error:
            stored.is_complete = False
            stored.problems.append(f"{source.name} cannot be imported ({error})")
    if not dry_run and stored.is_complete:
        try:
            legacy_backup.back_up_database(storage)
        except OSError as error:
            stored.is_complete = False
            stored.problems.append(f"its archive cannot be backed up ({error})")
    return stored


def migrate_site(connection: Connection, root: Path, row: LegacyRow, dry_run: bool = False) -> MigratedSite:
    migrated = MigratedSite(row.subdomain, row.stuck_in if row.is_stuck else None)
    if not is_subdomain(row.subdomain):
        migrated.skipped = (
            "its name cannot be a folder name; rename it in the table and on disk"
            " (lower-case letters, digits, dots, hyphens)"
        )
        return migrated
    stored = import_files(SiteStorage(root, row.subdomain), dry_run)
    migrated.problems += stored.problems
    if not stored.is_complete:
        # A partly imported site would never be completed: its folder is not scanned again.
        migrated.skipped = "not all of its files can be used; correct the listed problems and repeat"
        return migrated
    imported = [document.as_dict() for document in stored.documents]
    migrated.documents.update(stored.statuses)
    if row.is_stuck:
        migrated.phase = stored.first_phase(row.stuck_in)
    if not dry_run:
        times = (row.progress.started_at, row.progress.updated_at) if row.progress else (None, None)
        try:
            migrated.run_id = engine.import_legacy_site(
                connection, row.subdomain, Jsonb(imported), migrated.phase, *times
            )
        except (errors.DataError, errors.IntegrityError) as error:
            # One site with invalid rows must not stop the others.
            migrated.skipped = f"the database refuses it ({' '.join(str(error).split())})"
    return migrated
