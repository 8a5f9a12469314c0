"""What the older system made of a document, kept when clerk reads it anew: in `{site}/before-clerk/`, laid out alike.

Files get a second name there, which costs no room; reading replaces files by renaming, so what has that name stays
what it was. Nothing below `before-clerk` is ever overwritten: a second time goes beside the first.
"""

from __future__ import annotations

import filecmp
import itertools
import os
import shutil
import tempfile
from pathlib import Path

from clerk.documents.storage import Document, SiteStorage, fsync_dir, write

FOLDER = "before-clerk"


def back_up_files(storage: SiteStorage, document: Document) -> None:
    """Texts and page images, as they lie where clerk is about to put its own."""
    for folder in (storage.texts(document), storage.page_image(document, 1).parent):
        files = [file for file in _files(folder) if not file.name.startswith(".")]
        wanted = storage.folder / FOLDER / folder.relative_to(storage.folder)
        if files and not any(_holds(place, files) for place in _places(wanted)):
            _keep(files, wanted)


def back_up_database(storage: SiteStorage) -> None:
    """The archive that the older system published: the only copy of texts whose files are gone."""
    kept = storage.folder / FOLDER / storage.database.name
    if storage.database.is_file() and not kept.exists():
        hardlink_or_copy(storage.database, kept)


def hardlink_or_copy(path: Path, wanted: Path) -> None:
    """The file under another name, where nothing is yet; a copy of it where that cannot be."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Not a second name of a link, which may mean something else in another folder.
        os.link(path.resolve() if path.is_symlink() else path, wanted)
    except OSError:  # a file system without hard links, or a link to another one
        write(wanted, path.read_bytes())


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _places(wanted: Path) -> list[Path]:
    """Where an earlier time kept them: `2020-01-01`, `2020-01-01.2`, …"""
    names = (wanted if number == 1 else wanted.with_name(f"{wanted.name}.{number}") for number in itertools.count(1))
    return list(itertools.takewhile(Path.exists, names))


def _holds(place: Path, files: list[Path]) -> bool:
    return all((place / file.name).is_file() and filecmp.cmp(file, place / file.name, shallow=False) for file in files)


def _keep(files: list[Path], wanted: Path) -> None:
    """All of them under the name, or none: whoever is cut short begins anew."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{wanted.name}.", suffix=".part", dir=wanted.parent))
    try:
        for file in files:
            hardlink_or_copy(file, draft / file.name)
        draft.chmod(0o755)
        earlier = len(_places(wanted))
        draft.rename(wanted.with_name(f"{wanted.name}.{earlier + 1}") if earlier else wanted)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    fsync_dir(wanted.parent)
