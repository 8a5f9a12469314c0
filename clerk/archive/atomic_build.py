"""How an archive gets under its name: built beside it, checked, synced, renamed. Never a partial file.

A build starts from a copy of the present file and applies differences, so what did not change is not written again.
If that copy cannot be trusted (another form, damage), the build starts from nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from clerk.archive import content_hash
from clerk.documents.storage import fsync_dir
from clerk.errors import ArchiveDamaged

_SIDECARS = ("-wal", "-shm", "-journal")
STALE_AFTER = 2 * 3600.0
"""Seconds after which a temporary file is some dead process's: no build may take that long (see stage_policy)."""
_FORM = "select type, name, sql from sqlite_master where name not like 'sqlite\\_%' escape '\\'"


@dataclass(frozen=True)
class BuildResult:
    content_hash: str
    pages: int
    changed: bool
    """False if the present file already was what was asked for, and was left alone."""


Fill = Callable[[sqlite3.Connection], None]
Finish = Callable[[Path, bool], None]
"""Called with the path of the finished draft, and whether it was built from nothing."""


def build(
    final: Path,
    schema: str,
    fill: Fill,
    finish: Finish | None = None,
    before_rename: Callable[[], None] | None = None,
    *,
    anew: bool = False,
) -> BuildResult:
    """`before_rename` may raise to keep the present file: a worker that lost its claim has no say any more.

    `anew`: start from nothing, whatever is there.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    remove_stale_drafts(final)
    steps = (schema, fill, finish, before_rename)
    if final.exists() and not anew:
        try:
            return _build(final, *steps, fresh=False)
        except (sqlite3.DatabaseError, ArchiveDamaged, _SchemaMismatch):
            pass  # whatever is wrong with the present file, a new one is not affected by it
    return _build(final, *steps, fresh=True)


class _SchemaMismatch(Exception):
    """The present file was not made by this version of clerk."""


def _build(
    final: Path,
    schema: str,
    fill: Fill,
    finish: Finish | None,
    before_rename: Callable[[], None] | None,
    *,
    fresh: bool,
) -> BuildResult:
    with temporary(final) as draft:
        if not fresh:
            shutil.copyfile(final, draft)
        before = _change_counter(draft)
        with open_draft(draft) as connection:
            if fresh:
                connection.executescript(schema)
            elif not _has_form(connection, schema):
                raise _SchemaMismatch
            connection.execute("begin")
            fill(connection)
            connection.execute("commit")
        if finish is not None:
            finish(draft, fresh)
        changed = fresh or _change_counter(draft) != before
        with open_draft(draft) as connection:
            content_hash.check(connection)
            built = BuildResult(content_hash.hash_content(connection), content_hash.page_count(connection), changed)
        _remove_sidecars(draft)
        if changed:
            if before_rename is not None:
                before_rename()
            install(draft, final)
    return built


@contextlib.contextmanager
def open_draft(path: Path) -> Iterator[sqlite3.Connection]:
    """For a draft only: without journal and syncs, since a draft that is interrupted is thrown away."""
    connection = sqlite3.connect(path.absolute().as_uri(), uri=True, isolation_level=None)
    try:
        connection.execute(
            "pragma journal_mode = delete"
        ).fetchall()  # leaves the WAL mode, should somebody have set it
        connection.execute("pragma journal_mode = off").fetchall()
        connection.execute("pragma synchronous = off")
        connection.execute("pragma cache_size = -65536")
        yield connection
    finally:
        connection.close()


def _has_form(connection: sqlite3.Connection, schema: str) -> bool:
    """Everything of the schema is there, word for word. Plugins may have added tables of their own."""
    wanted = sqlite3.connect(":memory:")
    try:
        wanted.executescript(schema)
        return set(wanted.execute(_FORM)) <= set(connection.execute(_FORM))
    finally:
        wanted.close()


def _change_counter(path: Path) -> bytes:
    """SQLite's own: it changes with every transaction that wrote anything."""
    with path.open("rb") as file:
        return file.read(100)[24:28]


@contextlib.contextmanager
def temporary(final: Path) -> Iterator[Path]:
    """A name beside `final` that nobody takes for a result; gone afterwards unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".part", dir=final.parent)
    os.close(descriptor)
    path = Path(name)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        _remove_sidecars(path)


def make_durable(path: Path) -> None:
    with path.open("rb+") as file:
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())


def install(draft: Path, final: Path) -> None:
    make_durable(draft)
    # A journal that somebody left beside the old file would be replayed into the new one.
    _remove_sidecars(final)
    draft.replace(final)
    fsync_dir(final.parent)


def _remove_sidecars(path: Path) -> None:
    for ending in _SIDECARS:
        path.with_name(path.name + ending).unlink(missing_ok=True)


def remove_stale_drafts(final: Path) -> None:
    """What killed builds left behind."""
    for leftover in final.parent.glob(f".{final.name}.*.part*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime > STALE_AFTER:
                leftover.unlink()


def schema_of(name: str) -> str:
    return resources.files("clerk.archive").joinpath(name).read_text(encoding="utf-8")
