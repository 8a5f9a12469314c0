"""`civicplus-archive`: `Archive.aspx` of CivicPlus web sites, which has a list of documents per body and kind."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from clerk.documents.repository import DocumentRef
from clerk.errors import SourceUnreadable
from clerk.sources.link_parser import Link
from clerk.sources.recognition import Recognition
from clerk.sources.vendors.portal import PortalFetcher, body_of, first_day_of, kind_of

_DOCUMENT = r"[?&]ADID=\d+|/Archive(?:Center)?/ViewFile/Item/\d+"
_ITEM = re.compile(r"/ViewFile/Item/(\d+)", re.IGNORECASE)
"""The file to which `ADID=N` redirects; some lists link it."""
_ARCHIVE = r"[?&]AMID=\d+"
_KIND_WORDS = re.compile(
    r"\b(?:(?:agendas?|minutes|packets?)(?:\s*(?:and|&|/|,)\s*(?:agendas?|minutes|packets?))*)\b|\bmeeting$|\barchives?\b",
    re.IGNORECASE,
)
_TITLE = re.compile(r"^Archive Center\W*|\W*Archive Center.*$", re.IGNORECASE)


class CivicPlusArchive(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "site": "URL of the town's web site, such as https://www.example.gov",
        "archives": "number of a list, or several: N in Archive.aspx?AMID=N; default: lists named after a wanted kind",
    }
    required = ("site",)
    recognition = Recognition(
        "CivicPlus Archive Center",
        paths=(r"/Archive\.aspx(?:\?|$)",),
        base="site",
        markers=("a[href*='Archive.aspx?ADID=' i]", "a[href*='Archive.aspx?AMID=' i]"),
        start="/Archive.aspx",
        yields_to="civicplus",
    )
    urls = ("site",)
    names = ()

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not all(number.isdecimal() for number in _archives(extra)):
            raise ValueError("extra 'archives' must be a number or a list of numbers: N in Archive.aspx?AMID=N")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        address = f"{str(self.site.extra['site']).rstrip('/')}/Archive.aspx"
        archives = dict.fromkeys(_archives(self.site.extra), "") or await self._find_archives(address)
        is_chosen = bool(self.site.extra.get("archives"))
        for number, name in archives.items():
            page = await self.client.get_page(address, {"AMID": number})
            parsed = await self.parse_links(page, [_DOCUMENT])
            title = name or _TITLE.sub("", parsed.title) or self.site.name
            if not any(any(link.matches) for link in parsed.links) and "AMID" not in page.text:
                raise SourceUnreadable(f"no link with ADID= in the answer of {page.url[:200]}")
            documents = (self._parse(link, title, is_chosen) for link in parsed.links if any(link.matches))
            for ref in self.once(ref for ref in documents if ref is not None):
                yield ref

    async def _find_archives(self, address: str) -> dict[str, str]:
        """Names by number of the lists that are named after a kind that the site wants."""
        page = await self.client.get_page(address)
        links = (await self.parse_links(page, [_ARCHIVE])).links
        found = {_query(link.url, "amid"): link.text for link in links if any(link.matches) and link.text}
        if not found:
            raise SourceUnreadable(f"no link with AMID= in the answer of {page.url[:200]}")
        wanted = {number: name for number, name in found.items() if kind_of(name) in self.kinds}
        if not wanted:
            names = ", ".join(list(found.values())[:10])
            raise SourceUnreadable(
                f"none of the lists in the answer of {page.url[:200]} is named after {' or '.join(sorted(self.kinds))},"
                f" and 'archives' names none: {names[:300]}"
            )
        return wanted

    def _parse(self, link: Link, title: str, is_chosen: bool) -> DocumentRef | None:
        """The document of a link. If neither the link nor the list has a kind, and the site has chosen the list, the
        document says it."""
        kind = kind_of(link.text) or kind_of(title) or ""
        day = first_day_of(link.text, link.context)
        if not self.is_wanted(kind or next(iter(self.kinds)), day) or not (kind or is_chosen):
            return None
        item = _ITEM.search(urlsplit(link.url).path)
        number = item[1] if item else _query(link.url, "adid")
        address = link.url.partition("#")[0].partition("?")[0]
        url = address if item else f"{address}?ADID={number}"
        meeting = body_of(_KIND_WORDS.sub(" ", title)) or self.site.name
        origin = "source" if kind else "default"
        return DocumentRef(url, meeting, day, kind, f"civicplus archive {number}", name=link.text, kind_origin=origin)


def _query(url: str, name: str) -> str:
    values = {key.lower(): value for key, value in parse_qs(urlsplit(url).query).items()}
    return values.get(name, [""])[0]


def _archives(extra: Mapping[str, Any]) -> list[str]:
    numbers = extra.get("archives") or []
    return [str(number) for number in (numbers if isinstance(numbers, list) else [numbers])]
