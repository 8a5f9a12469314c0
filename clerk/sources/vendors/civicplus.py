"""`civicplus`: AgendaCenter pages of CivicPlus web sites, by way of their search, a year at a time."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import date, timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Fetcher
from clerk.sources.parse import parse_links
from clerk.sources.vendors.legistar import check_since

_FILE = re.compile(r"/AgendaCenter/ViewFile/(?P<kind>Agenda|Minutes)/_(?P<day>\d{8})-(?P<number>\d+)", re.IGNORECASE)
_AHEAD = timedelta(days=90)
_WITHOUT_SINCE = 5
"""Years to look back for sites that name no first day."""


class CivicPlus(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "site": "the town's web site, as in https://www.example.gov",
        "since": f"the first day wanted, as 2020-01-01; default: the site's start year, or {_WITHOUT_SINCE} years back",
    }
    required = ("site",)

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if urlsplit(str(extra["site"])).scheme not in ("http", "https"):
            raise ValueError("extra 'site' is an address such as https://www.example.gov")
        check_since(extra)

    @property
    def first_day(self) -> date:
        return super().first_day or date(date.today().year - _WITHOUT_SINCE, 1, 1)

    async def documents(self) -> AsyncIterator[DocumentRef]:
        named: set[str] = set()
        for first, last in _years(self.first_day, date.today() + _AHEAD):
            for found in await self._search(first, last):
                if found.key not in named:
                    named.add(found.key)
                    yield found

    async def _search(self, first: date, last: date) -> list[DocumentRef]:
        page = await self.client.get(
            f"{str(self.site.extra['site']).rstrip('/')}/AgendaCenter/Search/",
            {
                "term": "",
                "CIDs": "all",
                "startDate": f"{first:%m/%d/%Y}",
                "endDate": f"{last:%m/%d/%Y}",
                "dateRange": "",
                "dateSelector": "",
            },
        )
        if "AgendaCenter" not in page.text:
            raise SourceUnreadable(f"{page.url} is not an AgendaCenter page")
        return list(self.read(page.url, page.text))

    def read(self, url: str, html: str) -> Iterator[DocumentRef]:
        """The documents of one page of results. Packets, web versions and previous versions are left out."""
        _, links = parse_links(url, html)
        for link in links:
            if (match := _FILE.search(urlsplit(link.url).path)) is None:
                continue
            month, day, year = (int(part) for part in (match["day"][:2], match["day"][2:4], match["day"][4:]))
            kind = match["kind"].lower()
            try:
                held = date(year, month, day)
            except ValueError:
                self.skip(f"{link.url} has no date in its name")
                continue
            address = link.url.partition("?")[0].partition("#")[0]
            meeting = link.heading or self.site.name
            yield DocumentRef(address, meeting, held, kind, f"civicplus {match['number']} {kind}")

    def covers(self, known: TrackedDocument) -> bool:
        return known.date >= self.first_day


def _years(first: date, last: date) -> Iterator[tuple[date, date]]:
    for year in range(first.year, last.year + 1):
        yield max(first, date(year, 1, 1)), min(last, date(year, 12, 31))
