"""`civicplus`: AgendaCenter pages of CivicPlus web sites, listed by one search request per year."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import date, timedelta
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import urlsplit

from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Fetcher, check_since
from clerk.sources.http.client import HttpResponse
from clerk.sources.parse import Link, find_dates
from clerk.sources.recognition import Recognition

_FILE = re.compile(
    r"/AgendaCenter/ViewFile/(?:Archived)?(?P<kind>Agenda|Minutes)/_?(?P<day>\d{8})-(?P<number>\d+)", re.IGNORECASE
)
_ROWS = "tr.catAgendaRow"
_MEETING = r"/AgendaCenter/ViewFile/(?:Archived)?(?:Agenda|Minutes)/_?\d{8}-(\d+)"
"""`_FILE` with only the number of the meeting as a group."""
_PAGE = re.compile(
    r"AgendaCenter/(?:Search|ViewFile|PreviousVersions|UpdateCategoryList)|(?:id|class)=[\"']?[^\"'<>]{0,99}(?:agendacenter|\blisting\b)",
    re.IGNORECASE,
)
"""What every page of an AgendaCenter has. A link to it in the menu of another page is not enough."""
_WEEKDAY = re.compile(r"\W*(?:[a-z]{3,6}day)?\W*", re.IGNORECASE)
_NONE: Mapping[str, str] = MappingProxyType({})
_LOOKAHEAD = timedelta(days=90)
_DEFAULT_YEARS = 5
"""Years to list for sites without `since` and start year."""


class CivicPlus(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "site": "URL of the town's web site, such as https://www.example.gov",
        "since": f"date of the oldest documents, such as 2020-01-01; default: start year or {_DEFAULT_YEARS} years ago",
        "packets": "true to fetch agenda packets too, which can be very large; default: false",
    }
    extra_types: ClassVar[Mapping[str, type]] = {"packets": bool}
    required = ("site",)
    recognition = Recognition(
        "CivicPlus AgendaCenter",
        paths=(r"/AgendaCenter(?:[/?]|$)",),
        base="site",
        markers=("a[href*='/AgendaCenter/ViewFile/' i]", "[src*='/Areas/AgendaCenter/' i]"),
        start="/AgendaCenter",
    )

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if urlsplit(str(extra["site"])).scheme not in ("http", "https"):
            raise ValueError("extra 'site' must be a URL such as https://www.example.gov")
        check_since(extra)

    @property
    def first_day(self) -> date:
        return super().first_day or date(self.today.year - _DEFAULT_YEARS, 1, 1)

    async def documents(self) -> AsyncIterator[DocumentRef]:
        listed: set[str] = set()
        for first, last in _split_by_year(self.first_day, self.today + _LOOKAHEAD):
            for ref in await self._search(first, last):
                if ref.key not in listed:
                    listed.add(ref.key)
                    yield ref

    async def _search(self, first: date, last: date) -> list[DocumentRef]:
        page = await self.client.get_page(
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
        links = [link for link in (await self.parse_links(page)).links if _FILE.search(urlsplit(link.url).path)]
        if not links and _PAGE.search(page.text) is None:
            raise SourceUnreadable(f"{page.url} is not an AgendaCenter page")
        sections = await self._sections(page) if any(_is_date(link.heading) for link in links) else {}
        return list(self._documents(links, sections))

    async def _sections(self, page: HttpResponse) -> dict[str, str]:
        """By URL the nearest heading before the row that contains the link. In newer pages each row has a heading of
        its own, which is the date of the meeting."""
        rows = (await self.parse_rows(page, _ROWS, _ROWS, required=False, links=_MEETING)).rows
        return {link.url: row.section for row in rows for link in row.links if row.section}

    def _documents(self, links: Iterable[Link], sections: Mapping[str, str] = _NONE) -> Iterator[DocumentRef]:
        """Yield the documents of a page of search results, without HTML versions and previous versions."""
        for link in links:
            if (match := _FILE.search(urlsplit(link.url).path)) is None:
                continue
            month, day, year = (int(part) for part in (match["day"][:2], match["day"][2:4], match["day"][4:]))
            kind = match["kind"].lower()
            query = urlsplit(link.url).query.lower()
            if "packet=true" in query.split("&"):
                if self.site.extra.get("packets") is not True:
                    continue
                kind = "packet"
            try:
                meeting_date: date | None = date(year, month, day)
            except ValueError:
                meeting_date = None
            address = link.url.partition("?")[0].partition("#")[0] + ("?packet=true" if kind == "packet" else "")
            heading = sections.get(link.url, link.heading)
            meeting = self.site.name if _is_date(heading) else heading or self.site.name
            yield DocumentRef(address, meeting, meeting_date, kind, f"civicplus {match['number']} {kind}")

    def covers(self, tracked: TrackedDocument) -> bool:
        return tracked.date >= self.first_day


def _is_date(heading: str) -> bool:
    """Whether it begins with a date, such as `Sep 4, 2024 — Posted Aug 30, 2024 10:49 AM`."""
    return any(_WEEKDAY.fullmatch(heading, 0, match.start()) for _, match in find_dates(heading))


def _split_by_year(first: date, last: date) -> Iterator[tuple[date, date]]:
    for year in range(first.year, last.year + 1):
        yield max(first, date(year, 1, 1)), min(last, date(year, 12, 31))
