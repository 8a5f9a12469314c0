"""`boardbook`: the public page of an organisation on BoardBook; Sparq and BOEconnect are the same product.

The page links agendas and minutes as web pages; the portal has each of them as a PDF too.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from clerk.documents.repository import DocumentRef
from clerk.errors import DownloadRefused
from clerk.sources.http.client import FetchResult, Sink, Validators
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row
from clerk.sources.vendors.portal import PortalFetcher, body_of, first_day_of, kind_of, query_of

_PORTAL = "https://meetings.boardbook.org"
_ROWS = "table#PublicMeetingsTable > tbody > tr, tr.row-for-board, tr:not(:has(tr)):has(a[href*='/Public/' i])"
_CONTAINER = "table#PublicMeetingsTable, tr.row-for-board, [id*='PublicMeetings' i]"
_LINKS = r"(?:^|/)Public/(?:Agenda|Minutes|PublicNotice)/[\w-]+\?(?:.*&)?meeting=(\w+)"
_PAGE = re.compile(r"/Public/(?P<kind>Agenda|Minutes|PublicNotice)/(?=[\w-]+$)", re.IGNORECASE)
_KINDS = {"agenda": "agenda", "minutes": "minutes", "publicnotice": "notice"}
_LABEL = re.compile(
    r"\s*\bMeeting Type:\s*(?P<type>.*?)(?:\s+(?:date )?posted\b.*)?$|\s*\bdate posted\b.*$", re.IGNORECASE
)
"""What follows date and name: the type, and when the agenda was posted."""
_NAME = re.compile(
    r"^(?:[a-z]{3,10},? )?[a-z]{3,9}\.? \d{1,2}, (?:19|20)\d\d\b[^\u2013\u2014-]{0,200} [\u2013\u2014-] (?P<name>.+)$",
    re.IGNORECASE,
)
"""After date and time, or after what stands for the time: `May 5, 2026 after the hearing - Regular Meeting`."""


class BoardBook(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "organization": "number or name of the organisation: N in meetings.boardbook.org/Public/Organization/N",
        "portal": f"URL of the portal, such as https://meeting.sparqdata.com; default: {_PORTAL}",
    }
    required = ("organization",)
    recognition = Recognition(
        "BoardBook",
        hosts=(
            r"meetings\.boardbook\.org/Public/\w+/(?P<organization>[a-z0-9][\w-]{0,59})",
            r"meetings\.boardbook\.org/(?:Search/Index/|Documents/\w+/[^?]*\?(?:.*&)?org=)(?P<organization>[a-z0-9][\w-]{0,59})",
            r"(?P<portal>meeting\.(?:sparqdata\.com|boeconnect\.net))/Public/\w+/(?P<organization>[a-z0-9][\w-]{0,59})",
            r"(?:meetings|v3)\.boardbook\.org/",
        ),
        paths=(r"/Public/(?:Organization|Agenda|Minutes)/(?P<organization>\d{1,12})",),
        markers=("table#PublicMeetingsTable", "tr.row-for-board a[href*='/Public/' i]"),
    )
    names = ("organization",)

    async def documents(self) -> AsyncIterator[DocumentRef]:
        portal = str(self.site.extra.get("portal") or _PORTAL).rstrip("/")
        page = await self.client.get_page(f"{portal}/Public/Organization/{self.site.extra['organization']}")
        for row in (await self.parse_rows(page, _ROWS, _CONTAINER, links=_LINKS)).rows:
            for ref in self.once(self._parse(row)):
                yield ref

    def _parse(self, row: Row) -> Iterator[DocumentRef]:
        files = [(link, match) for link in row.links if (match := _PAGE.search(urlsplit(link.url).path))]
        if not files:
            return
        # May 5, 2026 at 4:30 PM - Joint Advisory Committee Meeting Type: Regular
        text = next((cell.text for cell in row.cells if first_day_of(cell.text)), row.plain)
        label = _LABEL.search(text)
        title = _LABEL.sub("", text)
        day = first_day_of(title, text)
        named = _NAME.match(title)
        names = (named["name"] if named else "", title, (label["type"] if label else "") or "")
        meeting = next((body for name in names if (body := body_of(name))), "")
        if not meeting:
            self.skip_malformed(row.text, "has no name", files[0][0].url)
            return
        for link, match in files:
            kind = _KINDS[match["kind"].lower()]
            if kind == "agenda" and kind_of(link.text) == "packet":
                kind = "packet"
            if self.is_wanted(kind, day):
                number = query_of(link.url).get("meeting", "")
                key = f"boardbook meeting {number} {kind}" if number else link.url
                yield DocumentRef(link.url, meeting, day, kind, key)

    async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        """Download the PDF. Without one, the portal redirects to its list, and the page that it links is downloaded."""
        try:
            url = _PAGE.sub(r"/Public/Download\g<kind>/", ref.url.partition("?")[0]) + f"?{urlsplit(ref.url).query}"
            result = await self.client.download(url, validators, sink)
            if result.not_modified or b"%PDF" in sink.head:
                return result
        except DownloadRefused:
            pass  # the portal has no PDF of it
        sink.restart()
        return await self.client.download(ref.url, Validators(), sink)
