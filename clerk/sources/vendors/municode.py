"""`municode`: Municode Meetings, a portal (`TOWN.municodemeetings.com`) or a page to embed (`PublishPage`)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from clerk.documents.media_types import HTML, media_type_of
from clerk.documents.repository import DocumentRef
from clerk.errors import SourceUnreadable
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row, RowLink
from clerk.sources.vendors.portal import MAX_PAGES, PortalFetcher, day_of, kind_of, name_of, prefer_pdf

_CONTAINER = "table.mcm, table.div-table, table.views-table, .view-content, .view-empty"
_ROWS = "tr:not(:has(tr)), .views-row:not(:has(.views-row)):not(:has(tr))"
_CELLS = "td, th, .views-field"
_LINKS = r"MEET-[A-Za-z]+-([0-9a-f]{32})|adaHtmlDocument\b.*[?&]me=([0-9a-f]{32})"
_STORED = re.compile(r"MEET-(?P<kind>[A-Za-z]+)-(?P<guid>[0-9a-f-]{32,36})", re.IGNORECASE)
_PAGE = re.compile(r"/adaHtmlDocument\b|\.html?$", re.IGNORECASE)
_DOCUMENT = re.compile(r"\.pdf$|\.docx?$|/d/f$|\.blob\.core\.", re.IGNORECASE)


class Municode(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "client": "the name of the portal: NAME in NAME.municodemeetings.com",
        "page": "instead of client: URL of the embedded page, https://meetings.municode.com/PublishPage?cid=CODE&ppid=GUID",
        "portal": "instead of client: URL of the portal; default: https://NAME.municodemeetings.com",
    }
    urls = ("page", "portal")
    recognition = Recognition(
        "Municode Meetings",
        hosts=(
            r"(?P<client>[a-z0-9-]+)\.municodemeetings\.com/",
            r"(?P<page>meetings\.municode\.com/PublishPage(?:/index)?\?(?=.*\bcid=)(?=.*\bppid=).+?)(?:&p=-?\d+)?$",
            r"meetings\.municode\.com/",
            r"(?P<portal>[a-z0-9-]+\.teammunicode\.com/meetings)",
        ),
        # Their folders have a code of the town, which is not the name of its portal.
        documents=(r"mccmeetings[a-z]*\.blob\.core\.usgovcloudapi\.net/[a-z0-9-]+-pubu/",),
        markers=("table.mcm", ".views-table td.views-field-field-agendas", ".views-table td.views-field-field-packets"),
    )
    host_interval = 15.0

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if bool(extra.get("client") or extra.get("portal")) == bool(extra.get("page")):
            raise ValueError("extra needs either 'client' (or 'portal') or 'page'")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        extra = self.site.extra
        embedded = str(extra.get("page") or "")
        portal = str(extra.get("portal") or f"https://{extra.get('client')}.municodemeetings.com").rstrip("/")
        address = _without_page(embedded) or (portal if urlsplit(portal).path else f"{portal}/")
        seen: set[str] = set()
        for number in range(MAX_PAGES):
            query = {"p": number + 1} if embedded else {"page": number}
            page = await self.client.get_page(address, query if number or embedded else None)
            rows = (await self.parse_rows(page, _ROWS, _CONTAINER, _CELLS, required=number == 0, links=_LINKS)).rows
            # Beyond the last page there is no table, or the last page again.
            further = {row.text for row in rows} - seen
            if not further:
                return
            seen |= further
            for row in rows:
                for ref in self.once(prefer_pdf(self._parse(row))):
                    yield ref
        raise SourceUnreadable(f"{address[:200]} has more than {MAX_PAGES:,} pages")

    def _parse(self, row: Row) -> Iterator[DocumentRef]:
        files = [(link, kind) for link in row.links if (kind := _kind(row, link)) is not None]
        if not files:
            return
        meeting = name_of(row, "meeting", "title", "name", "event", "body", "board")
        day = day_of(row)
        if not meeting:
            self.skip_malformed(row.text, "has no name", files[0][0].url)
            return
        for link, kind in files:
            if self.is_wanted(kind, day):
                url = _stored_url(link.url)
                stored = _STORED.search(url)
                key = f"municode {stored['guid'].replace('-', '').lower()} {kind}" if stored else url
                path = urlsplit(url).path
                is_page = _PAGE.search(path) is not None
                yield DocumentRef(
                    url,
                    meeting,
                    day,
                    kind,
                    f"{key} page" if is_page else key,
                    media_type=HTML if is_page else media_type_of(path),
                )


def _without_page(url: str) -> str:
    """The address of the embedded page without the number of a page of its list."""
    address, _, query = url.partition("?")
    kept = [part for part in query.split("&") if not re.match(r"p=", part, re.IGNORECASE)]
    return f"{address}?{'&'.join(kept)}" if query else url


def _stored_url(url: str) -> str:
    """The file to which a link of `meetings.municode.com/d/f?u=FILE&n=NAME` leads."""
    parts = urlsplit(url)
    stored = parse_qs(parts.query).get("u", [""])[0] if parts.path.rstrip("/").endswith("/d/f") else ""
    return stored if stored.startswith(("https://", "http://")) else url


def _kind(row: Row, link: RowLink) -> str | None:
    """By the name of the stored file, then by the text of the link and its column. None: not a document."""
    url = _stored_url(link.url)
    path = urlsplit(url).path
    if not _DOCUMENT.search(path) and not _PAGE.search(path) and "blob.core" not in urlsplit(url).netloc:
        return None
    stored = _STORED.search(url)
    cell = row.cells[link.cell] if link.cell is not None and link.cell < len(row.cells) else None
    attributes = " ".join(cell.attributes.values()) if cell else ""
    return kind_of(stored["kind"] if stored else "", link.text, link.title, link.label, row.column_of(link), attributes)
