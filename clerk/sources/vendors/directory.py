"""`directory`: a folder of PDFs. Meeting, date and kind are taken from the names of folders and files.

City Council/2024-03-05.pdf             City Council, 5 March 2024, minutes
Planning Board agenda 3-5-2024.pdf      Planning Board, 5 March 2024, agenda
agendas/Planning Board/2024/0305.pdf    skipped: no complete date
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, ClassVar

from clerk.documents.repository import DocumentRef
from clerk.documents.sanitize import clean_text
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.client import FetchResult, Sink, Validators
from clerk.sources.parse import find_date, find_kind, remove_dates
from clerk.sources.vendors import local

_GENERIC_FOLDER = re.compile(
    r"_?(?:pdfs?|files?|documents?|minutes?|agendas?|archives?|(?:19|20)\d\d|\d\d?)", re.IGNORECASE
)
_KIND_WORDS = re.compile(
    r"(?<![a-z])(?:meeting )?(?:minutes?|agendas?|packet|final|draft|approved)(?![a-z])", re.IGNORECASE
)
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Directory(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "path": "absolute path of the folder; its subfolders are included",
        "meeting": "name of the meeting, for files whose folder and name contain none; default: the site's name",
        "undated": "files without a date in the name: `skip` (default), or `modified` to use their modification date",
        "day_first": "true if 03-04-2025 means 3 April",
    }
    required = ("path",)

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not Path(str(extra["path"])).is_absolute():
            raise ValueError("extra 'path' must be the absolute path of a folder")
        if extra.get("undated", "skip") not in ("skip", "modified"):
            raise ValueError("extra 'undated' must be `skip` or `modified`")

    @property
    def folder(self) -> Path:
        return Path(str(self.site.extra["path"]))

    async def documents(self) -> AsyncIterator[DocumentRef]:
        if not self.folder.is_dir():
            raise SourceUnreadable(f"{self.folder} is not a folder on this machine, or the worker may not read it")
        for path in await asyncio.to_thread(lambda: sorted(self._files())):
            if (ref := self._parse(path)) is not None:
                yield ref

    def _files(self) -> Iterator[Path]:
        def fail(error: OSError) -> None:
            raise SourceUnreadable(f"{error.filename} cannot be read ({error.strerror})") from error

        for folder, names, files in os.walk(self.folder, onerror=fail):
            names[:] = [name for name in names if not name.startswith(".")]
            yield from (
                Path(folder, name) for name in files if name.lower().endswith(".pdf") and not name.startswith(".")
            )

    def _parse(self, path: Path) -> DocumentRef | None:
        relative = path.relative_to(self.folder)
        if not local.is_inside(path, self.folder):
            self.skip(f"{relative} is not a regular file, or a symbolic link to a file outside the folder")
            return None
        if (day := self._date(path, relative)) is None:
            self.skip(f"{relative} has no date in its name")
            return None
        kind = find_kind(relative.stem, *reversed(relative.parent.parts)) or "minutes"
        url, version = path.as_uri(), local.version_of(path)
        return DocumentRef(url, self._meeting(relative), day, kind, f"file {relative.as_posix()}", version)

    def _date(self, path: Path, relative: Path) -> date | None:
        day_first = bool(self.site.extra.get("day_first"))
        if (day := find_date(relative.stem, day_first) or find_date(str(relative), day_first)) is not None:
            return day
        if self.site.extra.get("undated") == "modified":
            return datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
        return None

    def _meeting(self, relative: Path) -> str:
        """The nearest folder that is not a generic name or a date; else the file name without date and kind."""
        folders = [
            part for part in relative.parent.parts if not _GENERIC_FOLDER.fullmatch(part) and not find_date(part)
        ]
        if folders:
            return clean_text(_CAMEL_CASE.sub(" ", folders[-1].replace("_", " ")))
        name = _KIND_WORDS.sub(" ", remove_dates(relative.stem).replace("_", " "))
        name = clean_text(_CAMEL_CASE.sub(" ", re.sub(r"[-\s]+", " ", name))).strip(" -.,")
        if len(re.sub(r"[\W\d]", "", name)) > 1:
            return name
        return str(self.site.extra.get("meeting") or self.site.name)

    async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        return await local.copy(self.folder / ref.key.removeprefix("file "), self.folder, sink)
