"""`granicus`: the publisher pages of Granicus (`ViewPublisher.php`), which list upcoming and archived meetings."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from clerk.documents.media_types import HTML, PDF_OR_HTML, media_type_of
from clerk.documents.repository import DocumentRef
from clerk.sources.http.client import FetchResult, Sink, Validators
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row, RowLink
from clerk.sources.vendors.portal import PortalFetcher, day_of, kind_of, name_of, query_of

_LINKED = ", ".join(
    f"tr:not(:has(tr)):has(a[{attribute}*='{page}.php' i])"
    for attribute in ("href", "onclick")
    for page in ("Viewer", "MediaPlayer")
)
_ROWS = (
    "table.listingTable > tbody > tr, tr.listingRow, table#archive > tbody > tr, table#upcoming > tbody > tr, "
    + _LINKED
)
_CONTAINER = (
    "table.listingTable, table.listingTableUpcoming, tr.listingRow, #archive, #upcoming, .archive, "
    "a[href*='ViewPublisherRSS.php' i], form[action*='ViewSearchResults.php' i]"
)
_LINKS = r"(?:^|/)(?:Generated)?(?:Agenda|Minutes|Meta|Document)Viewer\.php\?(?:.*&)?(?:clip_id|event_id)=(\d+)"
_VIEWERS = re.compile(r"/(?P<generated>Generated)?(?P<kind>Agenda|Minutes|Document|Meta)Viewer\.php$", re.IGNORECASE)
_FILE = re.compile(r"\.(?:pdf|docx?|html?)$", re.IGNORECASE)
_KEYS = ("meta_id", "doc_id", "file", "clip_id", "event_id")
_MEDIA = re.compile(r"MediaPlayer|\.mp[34]$|\.asx$|/player/", re.IGNORECASE)


class Granicus(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "client": "the name of the portal: NAME in NAME.granicus.com",
        "views": "number of the view, or a list of numbers: N in ViewPublisher.php?view_id=N",
        "portal": "instead of client: URL of the portal; default: https://NAME.granicus.com",
    }
    required = ("client", "views")
    recognition = Recognition(
        "Granicus",
        hosts=(
            r"(?P<client>(?!legistar)[a-z0-9-]+)\.granicus\.com/.*[?&]view(?:_id)?=(?P<views>\d{1,9})",
            r"(?P<client>(?!legistar)[a-z0-9-]+)\.granicus\.com/",
        ),
        paths=(
            r"/(?:ViewPublisher(?:RSS)?|(?:Generated)?AgendaViewer|MinutesViewer|MediaPlayer)\.php\?(?:.*&)?view_id=(?P<views>\d{1,9})",
        ),
        several="views",
        markers=(
            "table.listingTable td.listItem[headers]",
            "tr.listingRow td[headers]",
            "a[href*='AgendaViewer.php?' i]",
            "a[href*='MinutesViewer.php?' i]",
            "a[onclick*='MediaPlayer.php?' i]",
        ),
        start="/ViewPublisher.php?view_id=1",
    )

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not _views(extra):
            raise ValueError("extra 'views' must be a number or a list of numbers: N in ViewPublisher.php?view_id=N")

    @property
    def portal(self) -> str:
        return str(self.site.extra.get("portal") or f"https://{self.site.extra.get('client')}.granicus.com").rstrip("/")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        for view in _views(self.site.extra):
            page = await self.client.get_page(f"{self.portal}/ViewPublisher.php", {"view_id": view})
            for row in (await self.parse_rows(page, _ROWS, _CONTAINER, links=_LINKS)).rows:
                for ref in self.once(self._parse(row)):
                    yield ref

    def _parse(self, row: Row) -> Iterator[DocumentRef]:
        links = [(link, kind) for link in row.links if (kind := _kind(row, link)) is not None]
        if not links:
            return
        day = day_of(row)
        meeting = name_of(row, "name", "meeting", "event", "title", "body", "board", "committee", "description")
        if not meeting:
            self.skip_malformed(row.text, "has no name", links[0][0].url)
            return
        for link, kind in links:
            if self.is_wanted(kind, day):
                yield DocumentRef(link.url, meeting, day, kind, _key(link.url, kind), media_type=_media_type(link.url))

    async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        return await self.client.download(_viewed(ref.url), validators, sink, redirect=_viewed)


def _views(extra: Mapping[str, Any]) -> list[int]:
    views = extra.get("views")
    values = views if isinstance(views, list) else [views]
    return [int(str(value)) for value in values] if all(str(value).isdecimal() for value in values) else []


def _kind(row: Row, link: RowLink) -> str | None:
    """By the text of the link, then by its column and address. None: not a document."""
    path = urlsplit(link.url).path
    viewer = _VIEWERS.search(path)
    if _MEDIA.search(path) or (viewer is None and not _FILE.search(path) and "cloudfront" not in link.url):
        return None
    named = kind_of(link.text, f"{link.title} {link.label}", row.column_of(link))
    if named or viewer is None:
        return named
    return {"agenda": "agenda", "minutes": "minutes"}.get(viewer["kind"].lower())


def _key(url: str, kind: str) -> str:
    """The number of the meeting. A file with an address of its own has that address."""
    query = query_of(url)
    number = next((f"{name} {query[name]}" for name in _KEYS if name in query), "")
    return f"granicus {number} {kind}" if number else url


def _media_type(url: str) -> str:
    """A viewer shows a PDF, or a web page: only its answer says which."""
    path = urlsplit(url).path
    viewer = _VIEWERS.search(path)
    if viewer is None:
        return media_type_of(path)
    return HTML if viewer["generated"] else PDF_OR_HTML


def _viewed(url: str) -> str:
    """The document that a viewer on the web would show: `docs.google.com/gview?url=…`."""
    parts = urlsplit(url)
    if parts.path.rstrip("/").rpartition("/")[2].lower() in ("gview", "viewer", "viewerng"):
        shown = parse_qs(parts.query).get("url", [""])[0]
        if shown.startswith(("http://", "https://")):
            return shown
    return url
