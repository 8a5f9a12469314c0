"""`novusagenda`: the public meeting list of NovusAgenda, listed by one request per year.

The address can have a range of dates. A list that ignores it has fixed ranges: the last year and the next. Older
documents then stay as they were fetched.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from clerk.documents.media_types import HTML, PDF
from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import DownloadRefused
from clerk.sources.fetcher import Site
from clerk.sources.http.client import HttpResponse, RateLimitedClient
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row, RowLink
from clerk.sources.vendors.portal import day_of, kind_of, name_of, prefer_pdf, query_of
from clerk.sources.vendors.web_forms import GRID_ROWS, GridFetcher

logger = logging.getLogger(__name__)

_RANGES = ("lyr", "6ms", "nyr")
"""Last year, three months before and after today, next year."""
_RANGE = timedelta(days=360)
_LISTS = ("meetingsgeneral.aspx", "MeetingsResponsive.aspx")
"""The list and its newer form. Some portals have only one of them."""
_FILE = re.compile(r"/(?:DisplayAgendaPDF\.ashx|AttachmentViewer\.ashx|MeetingView\.aspx)$|\.pdf$", re.IGNORECASE)


_NOT_SENT = "[type=button], [type=submit], [type=image], [type=reset], [disabled]"
"""Form fields that a browser leaves out when another control sends the form."""


class NovusAgenda(GridFetcher):
    grid = "radGridMeetings"
    fields = f"input:not({_NOT_SENT}, [type=checkbox]:not([checked]), [type=radio]:not([checked])), select, textarea"
    container = "table.rgMasterTable, #meetings, [id*='rptMeetings' i], [id*='radGridMeetings' i]"
    rows = ", ".join(
        (
            GRID_ROWS,
            *(
                f"tr:not(:has(tr)):has(a[{attribute}*='{page}' i])"
                for attribute in ("href", "onclick")
                for page in ("DisplayAgendaPDF.ashx", "MeetingView.aspx")
            ),
        )
    )
    links = r"(?:DisplayAgendaPDF\.ashx|MeetingView\.aspx)\?(?:.*&)?(?:Minutes)?MeetingID=(\d+)"
    settings: ClassVar[Mapping[str, str]] = {
        "client": "the name of the portal: NAME in NAME.novusagenda.com",
        "meeting_types": "number of a meeting type, or a list: N in meetingsgeneral.aspx?MeetingType=N; default: all",
        "portal": "instead of client: URL of the list; default: https://NAME.novusagenda.com/agendapublic",
    }
    required = ("client",)
    recognition = Recognition(
        "NovusAgenda",
        hosts=(r"(?P<client>[a-z0-9-]+)\.novusagenda\.com/",),
        paths=(r"(?P<base>/agendapublic)(?:/|$)",),
        markers=(
            "[id*='radGridMeetings' i]",
            "a[href*='DisplayAgendaPDF.ashx?' i]",
            "a[onclick*='MeetingView.aspx?MeetingID=' i]",
            "a[onclick*='CoverSheet.aspx?ItemID=' i]",
        ),
        start="/meetingsgeneral.aspx",
    )

    def __init__(self, site: Site, client: RateLimitedClient) -> None:
        super().__init__(site, client)
        self._list = _LISTS[0]
        self._is_complete = True
        """Whether the list has all years that the site wants."""

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not all(str(value).isdecimal() for value in _meeting_types(extra) if value is not None):
            raise ValueError("extra 'meeting_types' must be a number or a list of numbers")

    @property
    def portal(self) -> str:
        default = f"https://{self.site.extra.get('client')}.novusagenda.com/agendapublic"
        return str(self.site.extra.get("portal") or default).rstrip("/")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        for meeting_type in _meeting_types(self.site.extra):
            query: dict[str, str | int] = {} if meeting_type is None else {"MeetingType": str(meeting_type)}
            async for page in self._pages(query):
                async for row in self.grid_rows(page):
                    for ref in self.once(prefer_pdf(self._parse(row))):
                        yield ref

    async def _pages(self, query: Mapping[str, str | int]) -> AsyncIterator[HttpResponse]:
        """The first page of each range of dates: of each year, or of the fixed ranges if the list shows other days."""
        for first, last in self.years():
            dates = {"Date": "cus", "From": f"{first:%m/%d/%Y}", "To": f"{last:%m/%d/%Y}"}
            try:
                page = await self._get_list({**query, **dates})
            except DownloadRefused as error:
                logger.info("%s: no list with a range of dates: %s", self.site.subdomain, error)
                self._list = _LISTS[0]
                break
            yield page
            shown = {name.rpartition("radCalendar")[2]: value for name, value in (await self.form_fields(page)).items()}
            if (shown.get("From"), shown.get("To")) != (str(first), str(last)):
                break
        else:
            return
        self._is_complete = False
        for name in _RANGES:
            yield await self._get_list({**query, "Date": name})

    async def _get_list(self, query: Mapping[str, str | int]) -> HttpResponse:
        try:
            return await self.client.get_page(f"{self.portal}/{self._list}", query)
        except DownloadRefused:
            if self._list != _LISTS[0]:
                raise
            self._list = _LISTS[1]
            return await self.client.get_page(f"{self.portal}/{self._list}", query)

    def _parse(self, row: Row) -> Iterator[DocumentRef]:
        files = [(link, kind) for link in row.links if (kind := _kind(row, link)) is not None]
        if not files:
            return
        meeting = name_of(row, "type", "name", "board", "committee", "body", "group")
        day = day_of(row)
        if not meeting:
            self.skip_malformed(row.text, "has no meeting type", files[0][0].url)
            return
        for link, kind in files:
            if self.is_wanted(kind, day):
                is_page = urlsplit(link.url).path.lower().endswith(".aspx")
                yield DocumentRef(
                    link.url,
                    meeting,
                    day,
                    kind,
                    f"{_key(link, kind)} page" if is_page else _key(link, kind),
                    media_type=HTML if is_page else PDF,
                )

    def covers(self, tracked: TrackedDocument) -> bool:
        return super().covers(tracked) and (self._is_complete or tracked.date >= self.today - _RANGE)


def _meeting_types(extra: Mapping[str, Any]) -> list[object]:
    types = extra.get("meeting_types")
    return list(types) if isinstance(types, list) else [types]


def _kind(row: Row, link: RowLink) -> str | None:
    """By the address, which names the meeting of minutes and the type of a page, then by text and column."""
    parts = urlsplit(link.url)
    if not _FILE.search(parts.path):
        return None
    query = query_of(link.url)
    named = kind_of(query.get("doctype", ""), link.text, f"{link.title} {link.label}", row.column_of(link))
    if "meetingid" not in query and "minutesmeetingid" in query:
        return "minutes"
    return named or ("agenda" if "meetingid" in query else None)


def _key(link: RowLink, kind: str) -> str:
    query = query_of(link.url)
    number = query.get("minutesmeetingid") if kind == "minutes" else query.get("meetingid")
    return f"novusagenda {number} {kind}" if number else link.url
