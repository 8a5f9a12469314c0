"""`novusagenda`: the public meeting list of NovusAgenda.

The list has fixed ranges of dates: the last year and the next. Older documents stay as they were fetched.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from clerk.documents.media_types import HTML, PDF
from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row, RowLink
from clerk.sources.vendors.portal import body_of, first_day_of, kind_of, prefer_pdf
from clerk.sources.vendors.web_forms import GridFetcher

_RANGES = ("lyr", "6ms", "nyr")
"""Last year, three months before and after today, next year."""
_RANGE = timedelta(days=360)
_FILE = re.compile(r"/(?:DisplayAgendaPDF\.ashx|AttachmentViewer\.ashx|MeetingView\.aspx)$|\.pdf$", re.IGNORECASE)


class NovusAgenda(GridFetcher):
    grid = "radGridMeetings"
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
        markers=("[id*='radGridMeetings' i]",),
        start="/meetingsgeneral.aspx",
    )

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
            for dates in _RANGES:
                query: dict[str, str | int] = {} if meeting_type is None else {"MeetingType": str(meeting_type)}
                page = await self.client.get_page(f"{self.portal}/meetingsgeneral.aspx", {**query, "Date": dates})
                async for row in self.grid_rows(page):
                    for ref in self.once(prefer_pdf(self._parse(row))):
                        yield ref

    def _parse(self, row: Row) -> Iterator[DocumentRef]:
        files = [(link, kind) for link in row.links if (kind := _kind(row, link)) is not None]
        if not files:
            return
        when, name = row.cell("date"), row.cell("type", "name", "board", "committee")
        name = name or (row.cells[1] if len(row.cells) > 1 else None)
        meeting = body_of(name.text if name else "")
        day = first_day_of(*((when.moment, when.text) if when else ()), *(cell.text for cell in row.cells))
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
        return super().covers(tracked) and tracked.date >= self.today - _RANGE


def _meeting_types(extra: Mapping[str, Any]) -> list[object]:
    types = extra.get("meeting_types")
    return list(types) if isinstance(types, list) else [types]


def _kind(row: Row, link: RowLink) -> str | None:
    """By the address, which names the meeting of minutes and the type of a page, then by text and column."""
    parts = urlsplit(link.url)
    if not _FILE.search(parts.path):
        return None
    query = {name.lower(): values[0] for name, values in parse_qs(parts.query).items()}
    named = kind_of(query.get("doctype", ""), link.text, link.title, row.column_of(link))
    if "meetingid" not in query and "minutesmeetingid" in query:
        return "minutes"
    return named or ("agenda" if "meetingid" in query else None)


def _key(link: RowLink, kind: str) -> str:
    query = {name.lower(): values[0] for name, values in parse_qs(urlsplit(link.url).query).items()}
    number = query.get("minutesmeetingid") if kind == "minutes" else query.get("meetingid")
    return f"novusagenda {number} {kind}" if number else link.url
