"""`legistar-calendar`: `Calendar.aspx` of Legistar, for towns without the web API. Listed by year, page by page."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from clerk.documents.media_types import HTML, PDF
from clerk.documents.repository import DocumentRef
from clerk.sources.http.client import HttpResponse
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row, RowLink
from clerk.sources.vendors.portal import day_of, kind_of, name_of, prefer_pdf, query_of
from clerk.sources.vendors.web_forms import GridFetcher

_YEARS_STATE = "ctl00_ContentPlaceHolder1_lstYears_ClientState"
_OFFERED = re.compile(
    r"<li\b[^<>]{0,200}\brcb(?:Item|Hovered)\b[^<>]{0,200}>\s{0,99}((?:19|20)\d\d)\s{0,99}</li", re.IGNORECASE
)
"""The years in the list from which a browser selects one."""
_SELECTED = re.compile(
    r"<input\b(?=[^<>]{0,999}lstYears_Input)[^<>]{0,999}\bvalue=[\"']([^\"'<>]{1,40})", re.IGNORECASE
)
_KINDS = {"a": "agenda", "aada": "agenda", "m": "minutes", "mada": "minutes", "pa": "packet"}
"""By the parameter M of `View.ashx`."""
_ACCESSIBLE = ("AADA", "MADA")
_FILE = re.compile(r"/View\.ashx$|\.pdf$", re.IGNORECASE)


class LegistarCalendar(GridFetcher):
    grid = "gridCalendar"
    settings: ClassVar[Mapping[str, str]] = {
        "client": "the name of the portal: NAME in NAME.legistar.com",
        "portal": "instead of client: URL of the portal; default: https://NAME.legistar.com",
    }
    required = ("client",)
    recognition = Recognition(
        "Legistar",
        paths=(
            r"(?<!/Citizens)/(?:Calendar|MeetingDetail|LegislationDetail|DepartmentDetail)\.aspx",
            r"/View\.ashx\?M=",
        ),
        markers=("[id*='gridCalendar']", "[id*='gridUpcomingMeetings']"),
        start="/Calendar.aspx",
    )

    @property
    def calendar(self) -> str:
        default = f"https://{self.site.extra.get('client')}.legistar.com"
        return f"{str(self.site.extra.get('portal') or default).rstrip('/')}/Calendar.aspx"

    async def documents(self) -> AsyncIterator[DocumentRef]:
        start = await self.client.get_page(self.calendar)
        fields = await self.form_fields(start)
        offered = set(_OFFERED.findall(start.text))
        for first, _ in self.years():
            year = str(first.year)
            page = await self._select(year, fields)
            if year in offered and not _shows(page, year):
                # Some servers do not always select what was asked for.
                page = await self._select(year, fields)
                if not _shows(page, year):
                    self.skip_malformed(f"the calendar of {year}", "was answered with another period")
            async for row in self.grid_rows(page):
                for ref in self.once(prefer_pdf(self._parse(row))):
                    yield ref

    async def _select(self, year: str, fields: Mapping[str, str]) -> HttpResponse:
        state_field = next((name for name in fields if name.endswith("lstYears_ClientState")), _YEARS_STATE)
        years = state_field.removesuffix("_ClientState").replace("_", "$")
        state = json.dumps({"logEntries": [], "value": year, "text": year, "enabled": True})
        return await self.post_event(self.calendar, fields, years, "", {state_field: state})

    def _parse(self, row: Row) -> Iterator[DocumentRef]:
        files = [
            (link, kind)
            for link in row.links
            if _FILE.search(urlsplit(link.url).path) and (kind := _kind(row, link)) is not None
        ]
        if not files:
            return
        meeting = name_of(row, "name", "body", "department", "committee", "board", "meeting")
        day = day_of(row)
        if not meeting:
            self.skip_malformed(row.text, "names no body", files[0][0].url)
            return
        for link, kind in files:
            if self.is_wanted(kind, day):
                number = query_of(link.url).get("id", "")
                is_accessible = _is_accessible(row, link)
                key = f"legistar calendar {number} {kind}" if number else link.url
                yield DocumentRef(
                    link.url,
                    meeting,
                    day,
                    kind,
                    f"{key} accessible" if is_accessible else key,
                    media_type=HTML if is_accessible else PDF,
                )


def _shows(page: HttpResponse, year: str) -> bool:
    """Whether the page says that it shows a year; one that does not say what it shows is believed."""
    selected = _SELECTED.search(page.text)
    return selected is None or selected[1].strip() == year


def _kind(row: Row, link: RowLink) -> str | None:
    by_address = _KINDS.get(query_of(link.url).get("m", "").lower())
    named = kind_of(row.column_of(link), link.text, f"{link.title} {link.label}")
    return by_address if by_address == "packet" else named or by_address


def _is_accessible(row: Row, link: RowLink) -> bool:
    """Whether it is the accessible version of a document, which is a web page."""
    return (
        "accessible" in f"{row.column_of(link)} {link.text}".lower()
        or query_of(link.url).get("m", "").upper() in _ACCESSIBLE
    )
