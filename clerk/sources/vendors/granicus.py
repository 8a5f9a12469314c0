"""`granicus`: the publisher pages of Granicus (`ViewPublisher.php`), which list upcoming and archived meetings.

If a page lists no documents, or none that can be recognised, the feeds to which it links are read instead.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from clerk.documents.media_types import HTML, PDF_OR_HTML, media_type_of
from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import DownloadRefused, RobotsDisallowed, SourceUnreadable
from clerk.sources.fetcher import Site
from clerk.sources.http.client import FetchResult, RateLimitedClient, Sink, Validators
from clerk.sources.parser_process import MAX_PAGE_BYTES
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row, RowLink
from clerk.sources.vendors.granicus_feed import MAX_ITEMS, is_feed, parse_items
from clerk.sources.vendors.portal import PortalFetcher, day_of, kind_of, name_of, query_of

logger = logging.getLogger(__name__)

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
    "table.listingTable, table.listingTableUpcoming, tr.listingRow, table#archive, table#upcoming, #granicus, "
    "#GranicusMainViewContent, a[onclick*='MediaPlayer.php' i], a[href*='MediaPlayer.php' i]"
)
_BOX = ":is(div, span, p)"
_CELLS = f"td, th, {_BOX}[class*='archive-' i]:not(:has([class*='archive-' i])), {_BOX}[data-label]"
"""Some towns list meetings in boxes whose classes name the columns: `archive-name`, `archive-date`."""
_LINKS = r"(?:^|/)(?:Generated)?(?:Agenda|Minutes|Meta|Document)Viewer\.php\?(?:.*&)?(?:clip_id|event_id)=(\d+)"
_VIEWERS = re.compile(r"/(?P<generated>Generated)?(?P<kind>Agenda|Minutes|Document|Meta)Viewer\.php$", re.IGNORECASE)
_FILE = re.compile(r"\.(?:pdf|docx?|html?)$", re.IGNORECASE)
_KEYS = ("meta_id", "doc_id", "file", "clip_id", "event_id")
_MEDIA = re.compile(
    r"MediaPlayer|TranscriptViewer|Podcast|ViewPublisher|ViewSearch|\.mp[34]$|\.asx$|ASX\.php$|/player/",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    r"(?:(?:view|open|download|full|final|draft|approved|amended|revised|regular|special|meeting|annotated|action|"
    r"summary|html|pdf|the|agenda|packet|minutes)\W{0,3}){1,6}",
    re.IGNORECASE,
)
"""The whole text of a link to a document that is not stored by Granicus."""


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
        documents=(
            r"granicus_production_attachments\.s3\.amazonaws\.com/(?P<client>[a-z0-9-]+)/",
            r"s3\.amazonaws\.com/granicus_production_attachments/(?P<client>[a-z0-9-]+)/",
            r"d3n9y02raazwpg\.cloudfront\.net/(?P<client>[a-z0-9-]+)/",
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

    def __init__(self, site: Site, client: RateLimitedClient) -> None:
        super().__init__(site, client)
        self._is_complete = True
        """Whether the listing is complete. Feeds have the latest documents only."""

    async def documents(self) -> AsyncIterator[DocumentRef]:
        for view in _views(self.site.extra):
            page = await self.client.get_page(f"{self.portal}/ViewPublisher.php", {"view_id": view})
            listing = await self.parse_rows(page, _ROWS, _CONTAINER, _CELLS, required=False, links=_LINKS)
            if any(_kind(row, link) for row in listing.rows for link in row.links):
                for row in listing.rows:
                    for ref in self.once(self._parse(row)):
                        yield ref
                continue
            has_feeds = "viewpublisherrss.php" in page.text.lower()
            refs = await self._read_feeds(view) if has_feeds else None
            if refs is None and not listing.containers:
                feed = f", and no feed at {self.portal[:200]}/ViewPublisherRSS.php?view_id={view}" if has_feeds else ""
                raise SourceUnreadable(f"no {_CONTAINER} in the answer of {page.url[:200]}{feed}")
            for ref in self.once(refs or []):
                yield ref

    async def _read_feeds(self, view: int) -> list[DocumentRef] | None:
        """The documents in the feeds of a view; None if it has none."""
        refs: list[DocumentRef] | None = None
        for mode, kind in (("agendas", "agenda"), ("minutes", "minutes")):
            try:
                query: dict[str, str | int] = {"view_id": view, "mode": mode}
                answer = await self.client.get(f"{self.portal}/ViewPublisherRSS.php", query, MAX_PAGE_BYTES)
            except (DownloadRefused, RobotsDisallowed) as error:
                logger.info("%s: no feed of view %d: %s", self.site.subdomain, view, error)
                continue
            if is_feed(answer.text):
                refs = [*(refs or []), *self._parse_feed(answer.text, kind)]
        self._is_complete = self._is_complete and not refs
        return refs

    def _parse_feed(self, text: str, kind: str) -> Iterator[DocumentRef]:
        for number, item in enumerate(parse_items(text)):
            if number == MAX_ITEMS:
                raise SourceUnreadable(f"the feed of {self.portal[:200]} has more than {MAX_ITEMS:,} items")
            if not _is_document(item.url) or not item.meeting:
                self.skip_malformed(
                    item.title, "has no address of a document" if item.meeting else "has no name", item.url
                )
            elif self.is_wanted(kind, item.date):
                key = _key(item.url, kind)
                yield DocumentRef(item.url, item.meeting, item.date, kind, key, media_type=_media_type(item.url))

    def covers(self, tracked: TrackedDocument) -> bool:
        return self._is_complete and super().covers(tracked)

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
    if not _is_document(link.url):
        # A document elsewhere, such as in Legistar or on the town's own site: only the text of the link can tell.
        is_named = not _MEDIA.search(path) and _is_web(link.url) and _ELSEWHERE.fullmatch(link.text)
        return kind_of(link.text) if is_named else None
    named = kind_of(link.text, f"{link.title} {link.label}", row.column_of(link))
    if named or viewer is None:
        return named
    return {"agenda": "agenda", "minutes": "minutes"}.get(viewer["kind"].lower())


def _is_document(url: str) -> bool:
    path = urlsplit(url).path
    is_file = _VIEWERS.search(path) or _FILE.search(path) or "cloudfront" in url
    return bool(is_file) and _is_web(url) and not _MEDIA.search(path)


def _is_web(url: str) -> bool:
    return url.startswith(("http://", "https://"))


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
        return media_type_of(path, PDF_OR_HTML)
    return HTML if viewer["generated"] else PDF_OR_HTML


def _viewed(url: str) -> str:
    """The document that a viewer on the web would show: `docs.google.com/gview?url=…`."""
    parts = urlsplit(url)
    if parts.path.rstrip("/").rpartition("/")[2].lower() in ("gview", "viewer", "viewerng"):
        shown = parse_qs(parts.query).get("url", [""])[0]
        if shown.startswith(("http://", "https://")):
            return shown
    return url
