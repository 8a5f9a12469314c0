"""`onbase`: OnBase Agenda Online of Hyland, searched by year."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from clerk.documents.media_types import HTML, media_type_of
from clerk.documents.repository import DocumentRef
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row, RowLink
from clerk.sources.vendors.portal import PortalFetcher, body_of, first_day_of, kind_of, prefer_pdf

_ROWS = "tr.meeting-row, .meeting-row"
_CONTAINER = "#meetings-list, .meeting-row"
_CUSTOM_RANGE = 11
"""Value of `dropid`: from `dropsv` to `dropev`."""
_TYPES = {"1": "agenda", "2": "minutes", "3": "packet"}
_FILE = re.compile(r"/Documents/(?:DownloadFile|DownloadFileBytes|ViewDocument)\b", re.IGNORECASE)
_PAGE = re.compile(r"/Meetings/ViewMeeting\b", re.IGNORECASE)
_TITLE = re.compile(r"\s*(?:View|Download)\s+(?P<what>.{1,60}?)\s+for\s", re.IGNORECASE)


class OnBase(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "portal": "URL of the portal, such as https://agenda.example.gov/OnBaseAgendaOnline",
        "meeting_types": "number of a meeting type, or a list: N in Search?mtids=N; default: all",
    }
    required = ("portal",)
    recognition = Recognition(
        "OnBase Agenda Online",
        paths=(r"(?P<base>/[a-z0-9_-]*AgendaOnline)(?:[/?]|$)",),
        markers=(
            ".meeting-row [data-sortable-type='mtgName']",
            "#meetings-list .meeting-row",
            "a[href*='/Meetings/ViewMeeting?' i]",
            "[src*='/OnBaseAgendaOnline/' i]",
        ),
        start="/Meetings/Search",
    )
    names = ()

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        types = extra.get("meeting_types", [])
        if not all(str(value).isdecimal() for value in (types if isinstance(types, list) else [types])):
            raise ValueError("extra 'meeting_types' must be a number or a list of numbers")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        portal = str(self.site.extra["portal"]).rstrip("/")
        types = self.site.extra.get("meeting_types") or "all"
        numbers = ",".join(map(str, types)) if isinstance(types, list) else str(types)
        for first, last in self.years():
            query: dict[str, str | int] = {
                "dropid": _CUSTOM_RANGE,
                "mtids": numbers,
                "dropsv": f"{first:%m/%d/%Y} 00:00:00",
                "dropev": f"{last:%m/%d/%Y} 23:59:59",
            }
            page = await self.client.get_page(f"{portal}/Meetings/Search", query)
            for row in (await self.parse_rows(page, _ROWS, _CONTAINER)).rows:
                for ref in self.once(prefer_pdf(self._parse(row))):
                    yield ref

    def _parse(self, row: Row) -> Iterator[DocumentRef]:
        # A row repeats its links in cells for narrow screens.
        files = {link.url: (link, kind) for link in row.links if (kind := _kind(link)) is not None}
        if not files:
            return
        when = _cell(row, "mtgTime")
        day = first_day_of(when, _cell(row, "mtgName"), row.text)
        meeting = body_of(_cell(row, "mtgType")) or body_of(_cell(row, "mtgName"))
        if not meeting:
            self.skip_malformed(row.text, "has no meeting type", next(iter(files)))
            return
        for url, (link, kind) in files.items():
            if self.is_wanted(kind, day):
                number = _query(link, "meetingId") or _query(link, "id") or row.attributes.get("data-meeting-id", "")
                is_page = _PAGE.search(urlsplit(url).path) is not None
                key = f"onbase meeting {number} {kind}" if number else url
                yield DocumentRef(
                    url,
                    meeting,
                    day,
                    kind,
                    f"{key} page" if is_page else key,
                    media_type=HTML if is_page else media_type_of(urlsplit(url).path),
                )


def _cell(row: Row, sortable: str) -> str:
    return next((cell.text for cell in row.cells if cell.attributes.get("data-sortable-type") == sortable), "")


def _query(link: RowLink, name: str) -> str:
    values = {key.lower(): value for key, value in parse_qs(urlsplit(link.url).query).items()}
    return values.get(name.lower(), [""])[0]


def _kind(link: RowLink) -> str | None:
    """By the text of the link and by its title (`Download Agenda for …`), then by the number of the type."""
    path = urlsplit(link.url).path
    if not _FILE.search(path) and not _PAGE.search(path):
        return None
    title = _TITLE.match(link.title)
    number = _query(link, "documentType") or _query(link, "doctype")
    return kind_of(title["what"] if title else "", link.text) or _TYPES.get(number)
