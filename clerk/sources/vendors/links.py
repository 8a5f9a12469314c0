"""`links`: web pages with links to PDFs and Word documents. Date, kind and meeting are taken from the link, its row and
its heading."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from clerk.documents.kinds import KINDS
from clerk.documents.media_types import media_type_of
from clerk.documents.repository import DocumentRef
from clerk.sources.fetcher import Fetcher
from clerk.sources.parse import Link, find_date, find_kind
from clerk.sources.pdf_details import UNDATED_HELP, check_undated

_DOCUMENT = r"(?i:\.(?:pdf|docx?|rtf))(?:$|[?#])"
_NOTHING = r"(?!)"
_MAX_PAGES = 500


class Links(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "pages": "URL of a page, or a list of URLs",
        "link": "regular expression for the URLs of documents; default: URLs that end in .pdf or .docx",
        "follow": "regular expression for the URLs of further pages, such as one per year; default: none",
        "meeting": "name of the meeting; default: the heading above the link, or the title of the page",
        "kind": f"kind if text, URL and heading name none ({', '.join(KINDS)}); default: as the PDF says, or minutes",
        "undated": UNDATED_HELP,
        "day_first": "true if 03-04-2025 means 3 April",
    }
    extra_types: ClassVar[Mapping[str, type]] = {"day_first": bool}
    required = ("pages",)

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        pages = extra["pages"]
        if not isinstance(pages, str) and not (
            isinstance(pages, list) and all(isinstance(page, str) for page in pages)
        ):
            raise ValueError("extra 'pages' must be a URL or a list of URLs")
        for name in ("link", "follow"):
            try:
                re.compile(str(extra.get(name, "")))
            except re.error as error:
                raise ValueError(f"extra {name!r} must be a regular expression ({error})") from error
        if extra.get("kind", "minutes") not in KINDS:
            raise ValueError(f"extra 'kind' must be one of {', '.join(KINDS)}")
        check_undated(extra)

    async def documents(self) -> AsyncIterator[DocumentRef]:
        extra = self.site.extra
        patterns = [str(extra.get("link") or _DOCUMENT), str(extra.get("follow") or _NOTHING)]
        pages = extra["pages"]
        queue = [pages] if isinstance(pages, str) else list(pages)
        queued = set(queue)
        listed: set[str] = set()
        undated: dict[str, DocumentRef] = {}
        while queue:
            page = await self.parse_links(await self.client.get_page(queue.pop(0)), patterns)
            for link in page.links:
                url = link.url.partition("#")[0]
                if not url.startswith(("http://", "https://")):
                    continue
                is_document, is_page = link.matches
                if is_document:
                    ref = self._parse(url, link, page.title)
                    # A page may link one document several times, and only one of the links may have its date.
                    if url not in listed and ref.date is not None:
                        listed.add(url)
                        yield ref
                    elif url not in listed:
                        undated.setdefault(url, ref)
                elif is_page and url not in queued and len(queued) < _MAX_PAGES:
                    queued.add(url)
                    queue.append(url)
        for url, ref in undated.items():
            if url not in listed:
                yield ref

    def _parse(self, url: str, link: Link, title: str) -> DocumentRef:
        extra = self.site.extra
        name = unquote(urlsplit(url).path.rpartition("/")[2])
        day_first = bool(extra.get("day_first"))
        in_name = find_date(link.text, day_first) or find_date(name, day_first)
        day = in_name or find_date(link.context, day_first) or find_date(unquote(url), day_first)
        kind = find_kind(link.text, name, link.heading) or ""
        origin = "source" if kind else "default"
        if not kind:
            kind = str(extra.get("kind") or "")
        meeting = str(extra.get("meeting") or link.heading or title or self.site.name)
        media_type = media_type_of(urlsplit(url).path)
        return DocumentRef(url, meeting, day, kind, kind_origin=origin, media_type=media_type)
