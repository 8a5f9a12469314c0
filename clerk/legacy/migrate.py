"""Makes runs of the older system's stuck sites: a site at a time, each whole or not at all.

Files first, then one transaction for the rows: whoever is cut short in between finds the files done the next time.
A site that has had a run here is passed over, so the whole can be repeated.
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
from clerk.legacy.tables import Connection, OldRow
from clerk.pipeline import engine


@dataclass
class Migrated:
    """What became of a site."""

    subdomain: str
    was: str | None
    """Where it was stuck; None if it was not."""
    phase: int | None = None
    run_id: int | None = None
    documents: Counter[str] = field(default_factory=Counter)
    """Status in the ledger → how many."""
    problems: list[str] = field(default_factory=list)
    skipped: str | None = None
    """Why nothing was done about it."""

    @property
    def total(self) -> int:
        return self.documents.total()

    def __str__(self) -> str:
        if self.skipped:
            return f"skipped: {self.skipped}"
        words = f"{self.documents['processed']}/{self.total} completed, {self.documents['failed_terminal']} failed"
        if waiting := self.documents["pending"]:
            words += f", {waiting} to read"
        return words + (" (starts with fetching)" if self.phase == 1 else "")


def migrate(
    connection: Connection,
    root: Path,
    *,
    every_site: bool = False,
    rehearse: bool = False,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> Iterator[Migrated]:
    """Each stuck site as it is done. `every_site`: the documents of all others too, without a run for them."""
    rows = tables.read(connection).sites
    wanted = [
        row
        for row in rows
        if row.is_stuck or (every_site and not row.is_ours and not _has_documents(connection, row.subdomain))
    ]
    if wanted:
        require_folders(root, rows)
        require_programs()
    progress(0, len(wanted))
    for number, row in enumerate(wanted, 1):
        yield migrate_site(connection, root, row, rehearse)
        progress(number, len(wanted))


def require_folders(root: Path, rows: Iterable[OldRow]) -> None:
    """Else a STORAGE_DIR that names another folder would make every site an empty one, for good. Sites migrated
    before count too: those that are left may have had no folder ever."""
    try:
        os.scandir(root).close()
    except OSError as error:
        raise SettingError(
            f"{root} cannot be read ({error.strerror})", "set STORAGE_DIR to the older system's"
        ) from error
    names = [row.subdomain for row in rows if (row.is_stuck or row.is_ours) and is_subdomain(row.subdomain)]
    if names and not any(SiteStorage(root, name).folder.is_dir() for name in names):
        raise SettingError(
            f"none of the stuck sites has a folder in {root}",
            "set STORAGE_DIR to the older system's, or, if they never had a file, make a folder for one of them",
        )


def require_programs() -> None:
    """Else a text that lacks its last pages would pass for all of it."""
    if (missing := disk.missing_program()) is not None:
        raise ClerkError("the pages of PDFs cannot be counted here", missing)


def _has_documents(connection: Connection, subdomain: str) -> bool:
    query = "select 1 from content_items where subdomain = %s and kind <> 'archive' limit 1"
    return connection.execute(query, [subdomain]).fetchone() is not None


def migrate_site(connection: Connection, root: Path, row: OldRow, rehearse: bool = False) -> Migrated:
    migrated = Migrated(row.subdomain, row.stuck_in if row.is_stuck else None)
    if not is_subdomain(row.subdomain):
        migrated.skipped = (
            "its name cannot be a folder here; rename it in the table and on disk"
            " (lower-case letters, digits, dots, hyphens)"
        )
        return migrated
    storage = SiteStorage(root, row.subdomain)
    found = disk.scan(storage.folder)
    migrated.problems += found.problems
    taken, is_whole = [], found.is_whole
    try:
        placed = import_texts.place(storage, found.documents)
    except OSError as error:
        placed, is_whole = [], False
        migrated.problems.append(f"its documents cannot be compared ({error})")
    for document, old in placed:
        try:
            taken.append(import_texts.import_document(storage, document, old, rehearse).as_dict())
        except OSError as error:
            is_whole = False
            migrated.problems.append(f"{old.name} cannot be taken over ({error})")
    if not rehearse and is_whole:
        try:
            legacy_backup.back_up_database(storage)
        except OSError as error:
            is_whole = False
            migrated.problems.append(f"its archive cannot be kept ({error})")
    if not is_whole:
        # Half of a site would count as all of it: nobody looks at its folder again.
        migrated.skipped = "not all of its files can be used; mend what is named and repeat"
        return migrated
    migrated.documents.update(document["status"] for document in taken)
    if row.is_stuck:
        migrated.phase = 1 if row.stuck_in == "fetch" or not taken else 2
    if not rehearse:
        times = (row.progress.started_at, row.progress.updated_at) if row.progress else (None, None)
        try:
            migrated.run_id = engine.import_legacy_site(connection, row.subdomain, Jsonb(taken), migrated.phase, *times)
        except (errors.DataError, errors.IntegrityError) as error:
            # Whatever is odd about one site's rows, the others are waiting.
            migrated.skipped = f"the database refuses it ({' '.join(str(error).split())})"
    return migrated
