"""Atomic build of a SQLite database: write a draft beside it, check the draft, fsync it, rename it.

The draft is a copy of the existing file, and only differences are written to it. If that file is damaged or has another
schema, the draft starts empty.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from clerk.archive import content_hash
from clerk.documents.storage import install, make_folder, temporary_file
from clerk.errors import ArchiveDamaged
from clerk.object_storage.path import ObjectPath, StoragePath

_SIDECARS = ("-wal", "-shm", "-journal")
STALE_AFTER = 2 * 3600.0
"""Age in seconds after which a draft belongs to a dead process: no build may take that long (see stage_policy)."""
_SCHEMA_OBJECTS = "select type, name, sql from sqlite_master where name not like 'sqlite\\_%' escape '\\'"


@dataclass(frozen=True)
class BuildResult:
    content_hash: str
    pages: int
    changed: bool
    """False if the existing file already had this content; it was not replaced."""


Fill = Callable[[sqlite3.Connection], None]
Finish = Callable[[Path, bool], None]
"""Called with the path of the filled draft, and whether it was built from scratch."""


def build(
    final: StoragePath,
    schema: str,
    fill: Fill,
    finish: Finish | None = None,
    before_rename: Callable[[], None] | None = None,
    *,
    from_scratch: bool = False,
) -> BuildResult:
    """Build `final`. `before_rename` may raise to keep the existing file, for example if the worker lost its claim.

    `from_scratch`: do not start from a copy of the existing file.

    In a bucket: the file is built on this machine, from a copy of the object, and uploaded if it changed.
    """
    if isinstance(final, ObjectPath):
        return _build_object(final, schema, fill, finish, before_rename, from_scratch=from_scratch)
    make_folder(final.parent)
    remove_stale_drafts(final)
    steps = (schema, fill, finish, before_rename)
    if final.exists() and not from_scratch:
        try:
            return _build(final, *steps, from_scratch=False)
        except (sqlite3.DatabaseError, ArchiveDamaged, _DifferentSchema):
            pass  # the existing file is unusable; a build from scratch does not read it
    return _build(final, *steps, from_scratch=True)


def _build_object(
    final: ObjectPath,
    schema: str,
    fill: Fill,
    finish: Finish | None,
    before_upload: Callable[[], None] | None,
    *,
    from_scratch: bool,
) -> BuildResult:
    work_folder = final.cache.work_folder
    make_folder(work_folder)
    _remove_stale_folders(work_folder)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=work_folder) as folder:
        local = Path(folder) / final.name
        if not from_scratch:
            with contextlib.suppress(FileNotFoundError), final.live().local_copy() as existing:
                shutil.copyfile(existing, local)
        result = build(local, schema, fill, finish, from_scratch=from_scratch)
        if result.changed:
            if before_upload is not None:
                before_upload()
            final.upload(local)
    return result


def _remove_stale_folders(work_folder: Path) -> None:
    """Delete the folders of processes that were killed."""
    for folder in work_folder.glob("scratch-*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - folder.stat().st_mtime > STALE_AFTER:
                shutil.rmtree(folder, ignore_errors=True)


class _DifferentSchema(Exception):
    """The existing file has another schema."""


def _build(
    final: Path,
    schema: str,
    fill: Fill,
    finish: Finish | None,
    before_rename: Callable[[], None] | None,
    *,
    from_scratch: bool,
) -> BuildResult:
    with _draft_file(final) as draft:
        if not from_scratch:
            shutil.copyfile(final, draft)
        before = _change_counter(draft)
        with open_draft(draft) as connection:
            if from_scratch:
                connection.executescript(schema)
            elif not _has_schema(connection, schema):
                raise _DifferentSchema
            connection.execute("begin")
            fill(connection)
            connection.execute("commit")
        if finish is not None:
            finish(draft, from_scratch)
        changed = from_scratch or _change_counter(draft) != before
        with open_draft(draft) as connection:
            content_hash.check_integrity(connection)
            result = BuildResult(content_hash.hash_content(connection), content_hash.count_pages(connection), changed)
        _remove_sidecars(draft)
        if changed:

            def prepare() -> None:
                if before_rename is not None:
                    before_rename()
                # SQLite would replay a journal left beside the old file into the new one.
                _remove_sidecars(final)

            install((draft, final), before_rename=prepare)
    return result


@contextlib.contextmanager
def open_draft(path: Path) -> Iterator[sqlite3.Connection]:
    """Open without journal and fsync. For drafts only: an interrupted draft is deleted."""
    connection = sqlite3.connect(path.absolute().as_uri(), uri=True, isolation_level=None)
    try:
        # From WAL mode, SQLite switches to "off" only by way of "delete".
        connection.execute("pragma journal_mode = delete").fetchall()
        connection.execute("pragma journal_mode = off").fetchall()
        connection.execute("pragma synchronous = off")
        connection.execute("pragma cache_size = -65536")
        yield connection
    finally:
        connection.close()


def _has_schema(connection: sqlite3.Connection, schema: str) -> bool:
    """Whether every object of the schema exists with the same definition. Plugins may have added other tables."""
    expected = sqlite3.connect(":memory:")
    try:
        expected.executescript(schema)
        return set(expected.execute(_SCHEMA_OBJECTS)) <= set(connection.execute(_SCHEMA_OBJECTS))
    finally:
        expected.close()


def _change_counter(path: Path) -> bytes:
    """SQLite's file change counter: every transaction that writes increments it."""
    with path.open("rb") as file:
        return file.read(100)[24:28]


@contextlib.contextmanager
def _draft_file(final: Path) -> Iterator[Path]:
    with temporary_file(final) as draft:
        try:
            yield draft
        finally:
            _remove_sidecars(draft)


def _remove_sidecars(path: Path) -> None:
    for ending in _SIDECARS:
        path.with_name(path.name + ending).unlink(missing_ok=True)


def remove_stale_drafts(final: Path) -> None:
    """Delete the drafts of builds that were killed."""
    for leftover in final.parent.glob(f".{final.name}.*.part*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime > STALE_AFTER:
                leftover.unlink()


def load_schema(name: str) -> str:
    return resources.files("clerk.archive").joinpath(name).read_text(encoding="utf-8")
