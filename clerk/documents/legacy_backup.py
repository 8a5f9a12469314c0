"""Backup of files of legacy clerk before OCR replaces them, in `{site}/before-clerk/` with the same layout.

Backups are hard links, which need no space. OCR replaces files by renaming, so a linked file does not change. Files
below `before-clerk` are never overwritten: a further backup gets a number.
"""

from __future__ import annotations

import filecmp
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import cast

from clerk.documents.storage import Document, SiteStorage, fsync, install, make_folder, relative_name, write
from clerk.object_storage.path import ObjectPath

FOLDER = "before-clerk"


def back_up_files(storage: SiteStorage, document: Document) -> None:
    """Back up the texts and page images of a document."""
    for folder in (storage.texts(document), storage.images(document)):
        if isinstance(folder, ObjectPath):
            _back_up_objects(storage, folder)
            continue
        files = [file for file in _list_files(folder) if not file.name.startswith(".")]
        site_folder = cast("Path", storage.folder)
        target = site_folder / FOLDER / folder.relative_to(site_folder)
        if files and not any(_contains(backup, files) for backup in _list_backups(target)):
            _back_up(files, target)


def _back_up_objects(storage: SiteStorage, folder: ObjectPath) -> None:
    """In a bucket, each object is copied. An interrupted backup is repeated under the next number."""
    objects = [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file()]
    if not objects:
        return
    target = storage.live().folder.joinpath(FOLDER, relative_name(folder, storage.folder))
    assert isinstance(target, ObjectPath)
    for number in itertools.count(1):
        backup = target if number == 1 else target.with_name(f"{target.name}.{number}")
        names = {path.name for path in backup.iterdir()}
        if not names:
            for path in objects:
                path.bucket.copy(path.key, (backup / path.name).key)
            return
        if all(path.name in names and (backup / path.name).read_bytes() == path.read_bytes() for path in objects):
            return


def back_up_database(storage: SiteStorage[Path]) -> None:
    """Back up the archive that legacy clerk published. It may have the only copy of a text."""
    target = storage.folder / FOLDER / storage.database.name
    if storage.database.is_file() and not target.exists():
        hardlink_or_copy(storage.database, target)
        fsync(target.parent)


def hardlink_or_copy(path: Path, target: Path) -> None:
    """Create a hard link to a file, or copy it where hard links are not possible. The target must not exist.

    The caller makes the new name durable with an fsync of its folder: one for several files.
    """
    make_folder(target.parent)
    try:
        # A relative symbolic link would point elsewhere from another folder.
        os.link(path.resolve() if path.is_symlink() else path, target)
    except OSError:  # no hard links on this file system, or the link leads to another one
        write(target, path.read_bytes())


def _list_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _list_backups(target: Path) -> list[Path]:
    """Return the existing backups: `2020-01-01`, `2020-01-01.2`, …"""
    names = (target if number == 1 else target.with_name(f"{target.name}.{number}") for number in itertools.count(1))
    return list(itertools.takewhile(Path.exists, names))


def _contains(backup: Path, files: list[Path]) -> bool:
    copies = ((file, backup / file.name) for file in files)
    return all(copy.is_file() and filecmp.cmp(file, copy, shallow=False) for file, copy in copies)


def _back_up(files: list[Path], target: Path) -> None:
    """Back up all files or none."""
    make_folder(target.parent)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        for file in files:
            hardlink_or_copy(file, draft / file.name)
        draft.chmod(0o755)
        existing = len(_list_backups(target))
        install((draft, target.with_name(f"{target.name}.{existing + 1}") if existing else target))
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
