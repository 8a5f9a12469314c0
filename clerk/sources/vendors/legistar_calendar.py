"""`legistar-calendar`: `Calendar.aspx` of Legistar, for towns without the web API. Listed by year, page by page."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from clerk.documents.media_types import HTML, PDF
from clerk.documents.repository import DocumentRef
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row, RowLink
from clerk.sources.vendors.portal import day_of, kind_of, name_of, prefer_pdf, query_of
from clerk.sources.vendors.web_forms import GridFetcher

_YEARS_STATE = "ctl00_ContentPlaceHolder1_lstYears_ClientState"
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
        fields = await self.form_fields(await self.client.get_page(self.calendar))
        state_field = next((name for name in fields if name.endswith("lstYears_ClientState")), _YEARS_STATE)
        years = state_field.removesuffix("_ClientState").replace("_", "$")
        for first, _ in self.years():
            state = json.dumps({"logEntries": [], "value": str(first.year), "text": str(first.year), "enabled": True})
            page = await self.post_event(self.calendar, fields, years, "", {state_field: state})
            async for row in self.grid_rows(page):
                for ref in self.once(prefer_pdf(self._parse(row))):
                    yield ref

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
