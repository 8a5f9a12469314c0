"""`boardbook`: the public page of an organisation on BoardBook. Agendas and minutes are web pages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from clerk.documents.media_types import HTML, PDF
from clerk.documents.repository import DocumentRef
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row
from clerk.sources.vendors.portal import PortalFetcher, body_of, first_day_of, kind_of, prefer_pdf

_PORTAL = "https://meetings.boardbook.org"
_TABLE = "table#PublicMeetingsTable"
_DOCUMENT = re.compile(
    r"/Public/(?P<kind>Agenda|Minutes)/\d+|/Documents/(?:DownloadPDF|FileViewerOrPublic|File)/", re.IGNORECASE
)
_LABEL = re.compile(r"\s*\bMeeting Type:\s*(?P<type>.*)$", re.IGNORECASE)


class BoardBook(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "organization": "number of the organisation: N in meetings.boardbook.org/Public/Organization/N",
        "portal": f"URL of the portal; default: {_PORTAL}",
    }
    required = ("organization",)
    recognition = Recognition(
        "BoardBook",
        hosts=(
            r"meetings\.boardbook\.org/Public/\w+/(?P<organization>\d{1,12})",
            r"meetings\.boardbook\.org/",
        ),
        paths=(r"/Public/(?:Organization|Agenda|Minutes)/(?P<organization>\d{1,12})",),
        markers=("table#PublicMeetingsTable",),
    )
    names = ("organization",)

    async def documents(self) -> AsyncIterator[DocumentRef]:
        portal = str(self.site.extra.get("portal") or _PORTAL).rstrip("/")
        page = await self.client.get_page(f"{portal}/Public/Organization/{self.site.extra['organization']}")
        for row in (await self.parse_rows(page, f"{_TABLE} > tbody > tr", _TABLE)).rows:
            for ref in self.once(prefer_pdf(self._parse(row))):
                yield ref

    def _parse(self, row: Row) -> Iterator[DocumentRef]:
        files = [(link, match) for link in row.links if (match := _DOCUMENT.search(urlsplit(link.url).path))]
        if not files or not row.cells:
            return
        # May 5, 2026 at 4:30 PM - Joint Advisory Committee Meeting Type: Regular
        title = row.cells[0].text
        label = _LABEL.search(title)
        day = first_day_of(title)
        meeting = body_of(_LABEL.sub("", title)) or body_of(label["type"] if label else "")
        if not meeting:
            self.skip_entry_of(row.text, "has no name", files[0][0].url)
            return
        for link, match in files:
            kind = kind_of(link.text, link.title, link.label) or (match["kind"] or "").lower()
            if self.is_wanted(kind, day):
                number = parse_qs(urlsplit(link.url).query).get("meeting", [""])[0]
                is_page = match["kind"] is not None
                key = f"boardbook meeting {number} {kind}" if number else link.url
                yield DocumentRef(link.url, meeting, day, kind, key, media_type=HTML if is_page else PDF)
