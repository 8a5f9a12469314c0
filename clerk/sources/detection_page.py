"""Requests pages for detection, at most MAX_REQUESTS, and extracts what a vendor can be recognised by."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from clerk.errors import DownloadRefused
from clerk.sources.http.body import Sink
from clerk.sources.http.client import HttpResponse, RateLimitedClient, Validators
from clerk.sources.link_parser import LinkParser
from clerk.sources.parser_process import MAX_PAGE_BYTES
from clerk.sources.references import MAX_REFERENCES, PageReferences, Reference
from clerk.sources.vendors import BUILT_IN

MAX_REQUESTS = 12
"""Of one detection, with redirects."""
_ENTRIES = 5
"""Of a JSON answer that are looked at. The first one may lack fields that are empty."""
_JSON_ADDRESS = re.compile(r"https?:(?:\\?/){2}[^\s\"<>]{4,500}", re.IGNORECASE)
_MARKERS = {label: fetcher.recognition.markers for label, fetcher in BUILT_IN.items() if fetcher.recognition.markers}


@dataclass(frozen=True)
class Page:
    """An answer: its addresses and markers if it is HTML, its addresses and entries if it is JSON."""

    url: str
    references: PageReferences | None = None
    fields: frozenset[str] = frozenset()
    """The names of the fields of its first entries."""


class PageReader:
    def __init__(self, client: RateLimitedClient) -> None:
        self.client = client
        self.requests = 0
        self._parser = LinkParser()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parser.close()

    async def read(self, url: str, redirects: list[str]) -> Page:
        """Request a page. The addresses to which it redirects are added to `redirects`."""
        return await self._parse(await self.get(url, redirects))

    async def get(self, url: str, redirects: list[str] | None = None) -> HttpResponse:
        self.requests += 1

        def follow(target: str) -> str:
            if redirects is not None:
                redirects.append(target)
            if self.requests >= MAX_REQUESTS:
                raise DownloadRefused(f"no more than {MAX_REQUESTS} requests are made for one detection")
            self.requests += 1
            return target

        buffer = io.BytesIO()
        result = await self.client.download(url, Validators(), Sink(buffer, MAX_PAGE_BYTES), redirect=follow)
        return HttpResponse(result.url, buffer.getvalue(), result.content_type)

    async def _parse(self, response: HttpResponse) -> Page:
        start = response.content[:1000].removeprefix(b"\xef\xbb\xbf").lstrip()
        if start.startswith((b"[", b"{")):
            return Page(response.url, _addresses_in(response.text), _entry_fields(response.content))
        if b"\0" in start or start.startswith(b"%PDF"):
            return Page(response.url)
        try:
            references = await asyncio.to_thread(self._parser.parse_references, response.url, response.text, _MARKERS)
        except asyncio.CancelledError:
            self._parser.kill()
            raise
        return Page(response.url, references)


def _addresses_in(text: str) -> PageReferences:
    """The addresses in a JSON document."""
    urls = dict.fromkeys(match[0].replace("\\/", "/") for match in _JSON_ADDRESS.finditer(text[:MAX_PAGE_BYTES]))
    return PageReferences("", [Reference("other", url, "") for url in list(urls)[:MAX_REFERENCES]], {})


def _entry_fields(content: bytes) -> frozenset[str]:
    """The names of the fields of the first entries of a list, or of a list in an object."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return frozenset()
    if isinstance(value, Mapping):
        value = next((each for each in value.values() if isinstance(each, list) and each), [])
    entries = [entry for entry in value[:_ENTRIES] if isinstance(entry, Mapping)] if isinstance(value, list) else []
    return frozenset(str(name) for entry in entries for name in entry)
