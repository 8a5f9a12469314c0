"""`directory`: a folder of PDFs, web pages and Word documents. Meeting, date and kind are taken from the names of
folders and files.

City Council/2024-03-05.pdf             City Council, 5 March 2024, minutes
Planning Board agenda 3-5-2024.pdf      Planning Board, 5 March 2024, agenda
agendas/Planning Board/2024/0305.pdf    Planning Board, agenda; its date is looked for in the PDF
From Martha/Zoning Board 2024-03-05.pdf Zoning Board, 5 March 2024, minutes
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from clerk.documents.media_types import media_type_of
from clerk.documents.repository import DocumentRef
from clerk.documents.sanitize import clean_text
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.client import FetchResult, Sink, Validators
from clerk.sources.parse import find_date, find_kind, remove_dates
from clerk.sources.pdf_details import BODY, UNDATED_HELP, check_undated
from clerk.sources.vendors import local

_GENERIC_FOLDER = re.compile(
    r"_?(?:pdfs?|files?|documents?|minutes?|agendas?|archives?|packets?|ordinances?|resolutions?|reports?|notices?|(?:19|20)\d\d|\d\d?)",
    re.IGNORECASE,
)
_KIND_WORDS = re.compile(
    r"(?<![a-z])(?:meeting )?(?:minutes?|agendas?|packet|notice|final|draft|approved)(?![a-z])", re.IGNORECASE
)
_EMPTY_BRACKETS = re.compile(r"[(\[{][^\w)\]}]*[)\]}]")
_PUNCTUATION = " -.,;:!?'\"*+&#/=~\N{EN DASH}\N{EM DASH}…"
_WITHOUT_MEANING = re.compile(
    r"a|camscanner|copy|doc|document|dsc[fn]?|fax|file|(?:mv)?img|image|new|of|page|pdf|photo|picture|pxl|scan(?:s|ned|ner)?"
    r"|screenshot|unnamed|untitled"
)
"""Words of names that cameras, scanners and programs give: they name no body."""
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Directory(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "path": "folder with the documents, and its subfolders; in JSON an absolute path",
        "meeting": "name of the meeting, for files whose folder and name contain none; default: the site's name",
        "undated": UNDATED_HELP,
        "day_first": "true if 03-04-2025 means 3 April",
    }
    extra_types: ClassVar[Mapping[str, type]] = {"path": Path, "day_first": bool}
    required = ("path",)

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not Path(str(extra["path"])).is_absolute():
            raise ValueError("extra 'path' must be the absolute path of a folder")
        check_undated(extra)

    @property
    def folder(self) -> Path:
        return Path(str(self.site.extra["path"]))

    async def documents(self) -> AsyncIterator[DocumentRef]:
        await asyncio.to_thread(local.require_folder, self.folder)
        for path in await asyncio.to_thread(lambda: sorted(self._files())):
            if (ref := self._parse(path)) is not None:
                yield ref

    def _files(self) -> Iterator[Path]:
        def fail(error: OSError) -> None:
            raise local.unreadable(Path(error.filename or self.folder), error) from error

        for folder, names, files in os.walk(self.folder, onerror=fail):
            names[:] = [name for name in names if not name.startswith(".")]
            yield from (
                Path(folder, name) for name in files if media_type_of(name, "") and not name.startswith((".", "~$"))
            )

    def _parse(self, path: Path) -> DocumentRef | None:
        relative = path.relative_to(self.folder)
        if not local.is_inside(path, self.folder):
            reason = f"{relative} is not a regular file, or a symbolic link to a file outside the folder"
            self.skip(reason, name=relative.as_posix(), url=path.as_uri())
            return None
        day_first = bool(self.site.extra.get("day_first"))
        day = find_date(relative.stem, day_first) or find_date(str(relative), day_first)
        kind, kind_origin = self._kind(relative)
        meeting, meeting_origin = self._meeting(relative)
        return DocumentRef(
            path.as_uri(),
            meeting,
            day,
            kind,
            f"file {relative.as_posix()}",
            local.version_of(path),
            relative.as_posix(),
            "name",
            meeting_origin,
            kind_origin,
            datetime.fromtimestamp(path.stat().st_mtime, UTC).date(),
            media_type_of(path.name),
        )

    def _kind(self, relative: Path) -> tuple[str, str]:
        """The kind, empty if no name has it, and its origin."""
        if kind := find_kind(relative.stem):
            return kind, "name"
        kind = find_kind(*reversed(relative.parent.parts)) or ""
        return kind, "folder" if kind else "default"

    def _meeting(self, relative: Path) -> tuple[str, str]:
        """The name of the file, if it is that of a known body and no folder is; else the nearest folder that is not a
        generic name or a date; else the name of the file without date and kind."""
        folders = [_clean_folder(part) for part in relative.parent.parts if not _is_generic(part)]
        name = _KIND_WORDS.sub(" ", remove_dates(relative.stem).replace("_", " "))
        name = _EMPTY_BRACKETS.sub(" ", _CAMEL_CASE.sub(" ", re.sub(r"[-\s]+", " ", name)))
        name = clean_text(name).strip(_PUNCTUATION)
        if folders and not (BODY.fullmatch(name) and not any(BODY.search(folder) for folder in folders)):
            return folders[-1], "folder"
        if _has_meaning(name):
            return name, "name"
        return str(self.site.extra.get("meeting") or self.site.name), "default"

    async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        return await local.copy(self.folder / ref.key.removeprefix("file "), self.folder, sink)


def _is_generic(folder: str) -> bool:
    """Whether the name of a folder names no body, such as `2024`, `minutes` and `new scans`."""
    return bool(_GENERIC_FOLDER.fullmatch(folder) or find_date(folder)) or not _has_meaning(folder)


def _has_meaning(name: str) -> bool:
    words = re.findall(r"[^\W\d_]+", name.casefold())
    return sum(len(word) for word in words if not _WITHOUT_MEANING.fullmatch(word)) > 1


def _clean_folder(folder: str) -> str:
    return clean_text(_CAMEL_CASE.sub(" ", folder.replace("_", " ")))
