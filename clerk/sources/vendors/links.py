"""`links`: web pages with links to PDFs. What is a document, and of which meeting and day, is told by patterns."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from clerk.documents.repository import DocumentRef
from clerk.sources.fetcher import KINDS, Fetcher
from clerk.sources.parse import Link, find_date, find_kind, parse_links

_PDF = r"\.pdf(?:$|[?#])"
_MOST_PAGES = 500


class Links(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "pages": "the address of a page, or a list of them",
        "link": "a pattern (regular expression) for the addresses of documents; default: ending in .pdf",
        "follow": "a pattern for addresses of further pages, such as one per year; default: none",
        "meeting": "the meeting's name; default: the heading that a link stands under, or the page's title",
        "kind": "minutes or agenda, for links whose text and address do not tell; default: minutes",
        "day_first": "true if 03-04-2025 is the 3rd of April",
    }
    required = ("pages",)

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        pages = extra["pages"]
        if not isinstance(pages, str) and not (isinstance(pages, list) and all(isinstance(one, str) for one in pages)):
            raise ValueError("extra 'pages' is an address or a list of addresses")
        for name in ("link", "follow"):
            try:
                re.compile(str(extra.get(name, "")))
            except re.error as error:
                raise ValueError(f"extra {name!r} is not a pattern ({error})") from error
        if extra.get("kind", "minutes") not in KINDS:
            raise ValueError(f"extra 'kind' is {' or '.join(KINDS)}")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        extra = self.site.extra
        wanted = re.compile(str(extra.get("link") or _PDF), re.IGNORECASE)
        follow = re.compile(str(extra["follow"]), re.IGNORECASE) if extra.get("follow") else None
        pages = extra["pages"]
        waiting = [pages] if isinstance(pages, str) else list(pages)
        seen = set(waiting)
        named: set[str] = set()
        while waiting:
            page = await self.client.get(waiting.pop(0))
            title, links = parse_links(page.url, page.text)
            for link in links:
                url = link.url.partition("#")[0]
                if not url.startswith(("http://", "https://")):
                    continue
                if wanted.search(link.url):
                    if url not in named and (found := self._found(url, link, title)) is not None:
                        named.add(url)
                        yield found
                elif follow and follow.search(url) and url not in seen and len(seen) < _MOST_PAGES:
                    seen.add(url)
                    waiting.append(url)

    def _found(self, url: str, link: Link, title: str) -> DocumentRef | None:
        extra = self.site.extra
        name = unquote(urlsplit(url).path.rpartition("/")[2])
        day_first = bool(extra.get("day_first"))
        places = (link.text, name, link.context, unquote(url))
        day = next((day for place in places if (day := find_date(place, day_first)) is not None), None)
        if day is None:
            self.skip(f"{url} has no date in its text, name or row")
            return None
        kind = find_kind(link.text, name, link.heading) or str(extra.get("kind") or "minutes")
        meeting = str(extra.get("meeting") or link.heading or title or self.site.name)
        return DocumentRef(url, meeting, day, kind)
