"""`directory`: a folder of PDFs. Meeting and date come from folder and file names.

City Council/2024-03-05.pdf             City Council, 5 March 2024, minutes
agendas/Planning Board/2024/0305.pdf    (no date: the year alone is not enough) passed over
Planning Board agenda 3-5-2024.pdf      Planning Board, 5 March 2024, agenda
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

_NOT_A_MEETING = re.compile(
    r"_?(?:pdfs?|files?|documents?|minutes?|agendas?|archives?|(?:19|20)\d\d|\d\d?)", re.IGNORECASE
)
_KIND_WORDS = re.compile(
    r"(?<![a-z])(?:meeting )?(?:minutes?|agendas?|packet|final|draft|approved)(?![a-z])", re.IGNORECASE
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Directory(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "path": "the folder; PDFs in folders below it are found too",
        "meeting": "the meeting's name, if neither folders nor file names tell",
        "undated": "files without a date in the name: `skip` (default), or `modified` for the day of their last change",
        "day_first": "true if 03-04-2025 is the 3rd of April",
    }
    required = ("path",)

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not Path(str(extra["path"])).is_absolute():
            raise ValueError("extra 'path' must be the full path of a folder, beginning with /")
        if extra.get("undated", "skip") not in ("skip", "modified"):
            raise ValueError("extra 'undated' is `skip` or `modified`")

    @property
    def folder(self) -> Path:
        return Path(str(self.site.extra["path"]))

    async def documents(self) -> AsyncIterator[DocumentRef]:
        if not self.folder.is_dir():
            raise SourceUnreadable(f"{self.folder} is not a folder that this worker can see")
        for path in await asyncio.to_thread(lambda: sorted(self._files())):
            if (found := self._found(path)) is not None:
                yield found

    def _files(self) -> Iterator[Path]:
        def complain(error: OSError) -> None:
            raise SourceUnreadable(f"{error.filename} cannot be read ({error.strerror})") from error

        for folder, names, files in os.walk(self.folder, onerror=complain):
            names[:] = [name for name in names if not name.startswith(".")]
            yield from (
                Path(folder, name) for name in files if name.lower().endswith(".pdf") and not name.startswith(".")
            )

    def _found(self, path: Path) -> DocumentRef | None:
        shown = path.relative_to(self.folder)
        if not local.is_below(path, self.folder):
            self.skip(f"{shown} is not a file in the folder, or a link that leads out of it")
            return None
        if (day := self._date(path, shown)) is None:
            self.skip(f"{shown} has no date in its name")
            return None
        kind = find_kind(shown.stem, *reversed(shown.parent.parts)) or "minutes"
        url, version = path.as_uri(), local.version_of(path)
        return DocumentRef(url, self._meeting(shown), day, kind, f"file {shown.as_posix()}", version)

    def _date(self, path: Path, shown: Path) -> date | None:
        day_first = bool(self.site.extra.get("day_first"))
        if (day := find_date(shown.stem, day_first) or find_date(str(shown), day_first)) is not None:
            return day
        if self.site.extra.get("undated") == "modified":
            return datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
        return None

    def _meeting(self, shown: Path) -> str:
        """The nearest folder that is named like a body, else what the file name says beside the date."""
        folders = [part for part in shown.parent.parts if not _NOT_A_MEETING.fullmatch(part) and not find_date(part)]
        if folders:
            return clean_text(_CAMEL.sub(" ", folders[-1].replace("_", " ")))
        name = _KIND_WORDS.sub(" ", remove_dates(shown.stem).replace("_", " "))
        name = clean_text(_CAMEL.sub(" ", re.sub(r"[-\s]+", " ", name))).strip(" -.,")
        if len(re.sub(r"[\W\d]", "", name)) > 1:
            return name
        return str(self.site.extra.get("meeting") or self.site.name)

    async def download(self, found: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        return await local.copy(self.folder / found.key.removeprefix("file "), self.folder, sink)
