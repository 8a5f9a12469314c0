"""`manifest`: a list of documents in CSV or JSON Lines, with the fields url, meeting, date and kind.

An empty date is looked for in the PDF.

url,meeting,date,kind
https://example.org/a.pdf,City Council,2024-03-05,minutes
"""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urljoin, urlsplit

from clerk.documents.kinds import KINDS
from clerk.documents.media_types import media_type_of
from clerk.documents.repository import DocumentRef
from clerk.documents.sanitize import clean_text
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.client import FetchResult, Sink, Validators
from clerk.sources.vendors import local


class Manifest(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "url": "http or https URL of the manifest",
        "path": "instead of url: the manifest as a file; its urls may be files in its folder; in JSON an absolute path",
    }
    extra_types: ClassVar[Mapping[str, type]] = {"path": Path}

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        if bool(extra.get("url")) == bool(extra.get("path")):
            raise ValueError("extra needs either 'url' or 'path' of the manifest")
        if extra.get("path") and not Path(str(extra["path"])).is_absolute():
            raise ValueError("extra 'path' must be an absolute path")

    @property
    def file(self) -> Path | None:
        path = self.site.extra.get("path")
        return Path(str(path)) if path else None

    async def documents(self) -> AsyncIterator[DocumentRef]:
        base, text = await self._read()
        for number, entry in _entries(text):
            if isinstance(entry, str):
                self.skip(f"line {number} of the manifest {entry}", name=f"line {number}")
            elif (ref := self._parse(base, number, entry)) is not None:
                yield ref

    async def _read(self) -> tuple[str, str]:
        if self.file is None:
            page = await self.client.get(str(self.site.extra["url"]))
            return page.url, page.text
        try:
            return self.file.as_uri(), await asyncio.to_thread(self.file.read_text, "utf-8-sig", "replace")
        except OSError as error:
            raise local.unreadable(self.file, error) from error

    def _parse(self, base: str, number: int, entry: Mapping[str, Any]) -> DocumentRef | None:
        values = {str(key).strip().lower(): str(value or "").strip() for key, value in entry.items() if key}
        url, meeting, kind = values.get("url", ""), clean_text(values.get("meeting", "")), values.get("kind", "minutes")
        kind = {"agendas": "agenda", "": "minutes"}.get(kind.lower(), kind.lower())
        missing = [name for name, value in (("url", url), ("meeting", meeting)) if not value]
        day: date | None = None
        if text := values.get("date", ""):
            try:
                day = date.fromisoformat(text)
            except ValueError:
                missing.append("date such as 2024-03-05")
        if kind not in KINDS:
            missing.append(f"kind of {', '.join(KINDS)}")
        if missing:
            reason = f"line {number} of the manifest has no {', no '.join(missing)}"
            self.skip(reason, name=f"line {number}", url=urljoin(base, url) if url else "")
            return None
        full = urljoin(base, url)
        # One PDF may be listed for two bodies that met together, so the URL alone does not identify a document.
        key = f"{full} {kind} {meeting} {day or 'without date'}"
        media_type = media_type_of(urlsplit(full).path)
        return DocumentRef(full, meeting, day, kind, key, self._version(full), media_type=media_type)

    def _version(self, url: str) -> str:
        path = self._local(url)
        return local.version_of(path) if path is not None and path.is_file() else ""

    def _local(self, url: str) -> Path | None:
        parts = urlsplit(url)
        return Path(unquote(parts.path)) if self.file is not None and parts.scheme == "file" else None

    async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        if self.file is not None and (path := self._local(ref.url)) is not None:
            return await local.copy(path, self.file.parent, sink)
        return await super().download(ref, validators, sink)


def _entries(text: str) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """Yield line numbers with entries. An invalid entry is the predicate of an error message."""
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield number, _json_entry(line)
        return
    header = text.lstrip().split("\n", 1)[0]
    delimiter = max(",;\t", key=header.count)
    rows = csv.DictReader(text.lstrip().splitlines(), delimiter=delimiter)
    if "url" not in [str(name).strip().lower() for name in rows.fieldnames or []]:
        raise SourceUnreadable("the manifest is neither JSON Lines nor CSV with a header that contains url")
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise SourceUnreadable(f"line {rows.line_num} of the manifest is not valid CSV ({error})") from error


def _json_entry(line: str) -> Mapping[str, Any] | str:
    try:
        entry = json.loads(line)
    except ValueError as error:
        return f"is not valid JSON ({error})"
    return entry if isinstance(entry, dict) else "is not a JSON object"
