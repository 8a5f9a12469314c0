"""`iqm2`: the calendar of IQM2 portals, listed by one request per year.

The numbers of document types mean different things in different towns, so the kind comes from the text of the link.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar
from urllib.parse import urlsplit

from clerk.documents.media_types import HTML, PDF
from clerk.documents.repository import DocumentRef
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row, RowLink
from clerk.sources.vendors.portal import PortalFetcher, body_of, first_day_of, kind_of, prefer_pdf, query_of

_ROWS = ".MeetingRow"
_CONTAINER = "[id$=pnlMeetings], [id$=lnkListView], [id$=pnlUpcomingMeetings], .MeetingRow"
_LINKS = r"(?:^|/)(?:FileOpen|FileView)\.aspx\?(?=.*Type=)(?:.*&)?ID=(\d+)"
_CELLS = ".RowLink, .RowRight, .RowDetails"
_BOARD = re.compile(
    r"\b(?:Board|Group|Committee|Department|Body):\s*(?P<board>.{1,200}?)\s*(?:\b(?:Type|Status|Location):|$)"
)
"""In the title of the link to a meeting."""
_FILE = re.compile(r"/FileOpen\.aspx$|\.pdf$", re.IGNORECASE)
_VIEWER = re.compile(r"/FileView\.aspx(?=\?|$)", re.IGNORECASE)
"""A page that shows a file, which `FileOpen.aspx` has with the same query."""
_DETAILS = re.compile(r"/Detail_Meeting\.aspx$", re.IGNORECASE)


class Iqm2(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "client": "the name of the portal: NAME in NAME.iqm2.com",
        "portal": "instead of client: URL of the portal; default: https://NAME.iqm2.com",
    }
    required = ("client",)
    recognition = Recognition(
        "IQM2",
        hosts=(r"(?P<client>[a-z0-9-]+)\.iqm2\.com/",),
        paths=(r"/Citizens/(?:Calendar|Detail_\w+|File(?:Open|View)|Board|Default|SplitView)\.aspx",),
        markers=(".MeetingRow .RowLink", "script[src*='MinuteTraq' i]"),
        start="/Citizens/Calendar.aspx",
    )

    @property
    def portal(self) -> str:
        return str(self.site.extra.get("portal") or f"https://{self.site.extra.get('client')}.iqm2.com").rstrip("/")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        for first, last in self.years():
            window = {"From": _american(first), "To": _american(last)}
            page = await self.client.get_page(
                f"{self.portal}/Citizens/Calendar.aspx", {"Frame": "Yes", "View": "List", **window}
            )
            for row in (await self.parse_rows(page, _ROWS, _CONTAINER, _CELLS, links=_LINKS)).rows:
                for ref in self.once(prefer_pdf(self._parse(row))):
                    yield ref

    def _parse(self, row: Row) -> Iterator[DocumentRef]:
        links = [replace(link, url=_VIEWER.sub("/FileOpen.aspx", link.url)) for link in row.links]
        files = [link for link in links if _is_document(link) and _kind(link)]
        if not files:
            return
        titles = [link.title for link in row.links if _BOARD.search(link.title)]
        boards = [match["board"] for title in titles if (match := _BOARD.search(title))]
        details = row.cell("rowdetails", "details")
        texts = (boards[0] if boards else "", details.text if details else "", row.plain)
        meeting = next((body for text in texts if (body := body_of(text))), "")
        day = first_day_of(*titles, *(cell.text for cell in row.cells), row.text)
        if not meeting:
            self.skip_malformed(row.text, "names no board", files[0].url)
            return
        kinds: set[str] = set()
        for link in files:
            kind = _kind(link)
            if self.is_wanted(kind, day):
                key = f"iqm2 meeting {_meeting_id(row) or _query(link, 'ID')} {kind}"
                # A second document of a kind, such as a revised agenda beside the first.
                key = f"{key} {_query(link, 'Type')} {_query(link, 'ID')}" if key in kinds else key
                kinds.add(key)
                is_page = "html" in link.text.lower() or _DETAILS.search(urlsplit(link.url).path) is not None
                media_type = HTML if is_page else PDF
                yield DocumentRef(
                    link.url, meeting, day, kind, f"{key} page" if is_page else key, media_type=media_type
                )


def _is_document(link: RowLink) -> bool:
    """A file, or the page of a meeting if the link is not the one to the meeting itself."""
    path = urlsplit(link.url).path
    return _FILE.search(path) is not None or (_DETAILS.search(path) is not None and not _BOARD.search(link.title))


def _kind(link: RowLink) -> str:
    return kind_of(link.text, f"{link.title} {link.label}") or ""


def _american(day: object) -> str:
    return f"{day:%m/%d/%Y}"


def _query(link: RowLink, name: str) -> str:
    return query_of(link.url).get(name.lower(), "")


def _meeting_id(row: Row) -> str:
    links = (link for link in row.links if _DETAILS.search(urlsplit(link.url).path))
    return next((number for link in links if (number := _query(link, "ID"))), "")
