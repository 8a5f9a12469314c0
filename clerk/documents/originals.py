"""Finds the file as it was fetched of a document in a published archive, which names only kind, date and meeting."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import cast

from clerk.documents import manifest
from clerk.documents.media_types import STORED_EXTENSIONS
from clerk.documents.storage import Document, SiteStorage, list_names
from clerk.object_storage.path import ObjectPath, StoragePath


def find_original(
    storage: SiteStorage, kind: str, day: str, meeting: str, texts: Mapping[int, str]
) -> tuple[Document, StoragePath] | None:
    """The stored file whose pages have these texts, by number: a folder can hold several meetings of a day, and
    revisions that are not published. None if this machine has no such file."""
    hashes = {page: manifest.digest(text.encode()) for page, text in texts.items()}
    with contextlib.suppress(OSError):
        for document in _candidates(storage, kind, day, meeting):
            try:
                stored = manifest.load(storage.manifest(document))
            except manifest.ManifestUnreadable:
                continue
            if stored is None or not hashes.items() <= {page.page: page.sha256 for page in stored.pages}.items():
                continue
            for extension in STORED_EXTENSIONS.values():
                fetched = replace(document, extension=extension)
                file = storage.pdf(fetched)
                if file.is_file() and _is_inside(file, storage.folder):
                    return fetched, file
    return None


def _candidates(storage: SiteStorage, kind: str, day: str, meeting: str) -> Iterator[Document]:
    """The stored documents of a day, the newest revision first. The archive names a second meeting of a day
    `City Council (2)`."""
    try:
        parsed_day = date.fromisoformat(day)
    except ValueError:
        return
    for name in dict.fromkeys((meeting, re.sub(r" \(\d+\)$", "", meeting))):
        document = Document(0, storage.subdomain, kind, name, parsed_day)
        stems = (
            re.fullmatch(rf"{re.escape(document.stem)}(?:_(\d{{1,6}}))?(?:_r(\d{{1,6}}))?", stem)
            for stem in list_names(storage.texts(document).parent)
        )
        found = [(int(stem[1] or 1), int(stem[2] or 1)) for stem in stems if stem]
        for occurrence, revision in sorted(found, key=lambda numbers: (numbers[0], -numbers[1])):
            yield replace(document, occurrence=occurrence, revision=revision)


def _is_inside(file: StoragePath, folder: StoragePath) -> bool:
    """A symbolic link must not lead out of the site's folder."""
    return isinstance(file, ObjectPath) or file.resolve().is_relative_to(cast("Path", folder).resolve())
