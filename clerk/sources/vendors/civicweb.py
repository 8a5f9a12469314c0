"""`civicweb`: CivicWeb and Diligent Community portals.

One request per year lists the meetings, and one per meeting its documents. Meetings of more than 400 days ago are
requested until one of their documents is stored. Portals without the service that answers them: see `civicweb_pages`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import date
from typing import Any, ClassVar

from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import DownloadRefused
from clerk.sources.fetcher import Site
from clerk.sources.http.client import RateLimitedClient
from clerk.sources.recognition import Recognition
from clerk.sources.vendors.civicweb_pages import CivicWebPages
from clerk.sources.vendors.portal import OLD, body_of, first_day_of, parse_number, require_list

_KINDS = {1: "agenda", 4: "agenda", 2: "minutes", 9: "minutes", 10: "minutes", 53: "minutes", 55: "minutes"}
_TYPES = {1: "agenda", 2: "minutes"}
"""Meaning of the field `Type`, for documents without `DocumentType`."""
_FILES = (4, 10, 53)
"""Stored PDFs. The other types are pages, of which the portal makes a PDF on request."""
_MEETINGS = "meetings"
_BLANK = b"\xef\xbb\xbf \t\r\n"


class CivicWeb(CivicWebPages):
    settings: ClassVar[Mapping[str, str]] = {
        "client": "the name of the portal: NAME in NAME.civicweb.net",
        "portal": "instead of client: URL of the portal, such as https://NAME.diligent.community; default: https://NAME.civicweb.net",
    }
    required = ("client",)
    recognition = Recognition(
        "CivicWeb",
        hosts=(
            r"(?P<client>[a-z0-9-]+)\.civicweb\.net/",
            r"(?P<portal>[a-z0-9-]+\.diligent\.community)/",
            r"(?P<portal>[a-z0-9-]+\.community\.(?:highbond|diligentoneplatform)\.com)/",
        ),
        paths=(r"/Services/MeetingsService\.svc\b", r"/Portal/Meeting(?:TypeList|Information|Schedule|Types)\.aspx"),
        markers=(
            "a[href*='/Portal/MeetingInformation.aspx?' i]",
            "a[href*='/Portal/MeetingTypeList.aspx' i]",
            ".meeting-type-item-title",
            "[id*='MainContent_MeetingButton'], select[id$='MainContent_MeetingTypes']",
        ),
        fields=(
            frozenset({"MeetingDateTime", "Id"}),
            frozenset({"DocumentType", "MeetingId", "Id"}),
        ),
        start="/Portal/MeetingTypeList.aspx",
    )

    def __init__(self, site: Site, client: RateLimitedClient) -> None:
        super().__init__(site, client)
        self._has: dict[str, bool] = {}
        """Whether the portal's service has a method, by its name; without those that were not asked yet."""

    @property
    def portal(self) -> str:
        return str(self.site.extra.get("portal") or f"https://{self.site.extra.get('client')}.civicweb.net").rstrip("/")

    @property
    def _service(self) -> str:
        return f"{self.portal}/Services/MeetingsService.svc/{_MEETINGS}"

    async def documents(self) -> AsyncIterator[DocumentRef]:
        listed: set[int] = set()
        async for meeting in self._list_meetings():
            number = parse_number(meeting.get("Id")) if isinstance(meeting, dict) else None
            if not isinstance(meeting, dict) or number is None:
                self.skip_malformed(f"the entry {str(meeting)[:80]!r}", "is not a meeting")
            elif meeting.get("Published") is not False and number not in listed:
                listed.add(number)
                day = _day(meeting)
                is_before = day is not None and day < self.listed_from
                if is_before or self.is_old_and_stored(day, _key(number, "agenda"), _key(number, "minutes")):
                    continue
                for ref in self._parse(meeting, number, await self._list_documents(number)):
                    yield ref

    async def _list_meetings(self) -> AsyncIterator[Any]:
        for first, last in self.years():
            answer = await self._ask(self._service, {"from": str(first), "to": str(last), "loadall": "true"})
            if answer is None:
                async for meeting in self.page_meetings():
                    yield meeting
                return
            meetings = answer.get("Meetings", answer) if isinstance(answer, dict) else answer
            for meeting in require_list(meetings, self._service):
                yield meeting

    async def _list_documents(self, meeting: int) -> list[Any]:
        url = f"{self._service}/{meeting}/meetingDocuments"
        answer = await self._ask(url)
        if answer is None:
            return await self.page_documents(meeting)
        if isinstance(answer, dict) and "Documents" in answer:
            answer = answer["Documents"] or []
        return require_list(answer, url, "a list of documents")

    async def _ask(self, url: str, query: Mapping[str, str | int] | None = None) -> Any:
        """The answer of the service; None if this portal does not have it."""
        method = url.rpartition("/")[2]
        may_be_absent = method not in self._has and self._has.get(_MEETINGS, False) is False
        if self._has.get(method) is False:
            return None
        try:
            response = await self.client.get(url, query, headers={"Accept": "application/json"})
        except DownloadRefused:
            if not may_be_absent:
                raise
            self._has[method] = False
            return None
        self._has[method] = not may_be_absent or response.content.lstrip(_BLANK).startswith((b"[", b"{"))
        return response.json() if self._has[method] else None

    def _parse(self, meeting: Mapping[str, Any], number: int, found: list[Any]) -> Iterator[DocumentRef]:
        names = (meeting.get("MeetingTypeName"), meeting.get("CleanName"), meeting.get("Name"))
        name = next((body for value in names if value and (body := body_of(str(value)))), "")
        what = f"meeting {number} ({name})"
        if not name:
            self.skip_malformed(what, "has no name")
            return
        day = _day(meeting)
        by_kind: dict[str, tuple[int, Mapping[str, Any]]] = {}
        for document in found:
            document_number = parse_number(document.get("Id")) if isinstance(document, dict) else None
            if document_number is None:
                self.skip_malformed(what, f"has a document without Id: {str(document)[:80]!r}")
            elif (kind := _kind(document)) and (kind not in by_kind or _is_file(document) > _is_file(by_kind[kind][1])):
                by_kind[kind] = document_number, document
        for kind, (document_number, document) in by_kind.items():
            if self.is_wanted(kind, day):
                print_page = "" if _is_file(document) else "?printPdf=true"
                url = f"{self.portal}/document/{document_number}/{print_page}"
                version = f"{document_number} {document['LastModified']}" if document.get("LastModified") else ""
                yield DocumentRef(url, name, day, kind, _key(number, kind), version)

    def covers(self, tracked: TrackedDocument) -> bool:
        return super().covers(tracked) and tracked.date >= self.today - OLD


def _day(meeting: Mapping[str, Any]) -> date | None:
    return first_day_of(meeting.get("MeetingDateTime"), meeting.get("MeetingDate"), meeting.get("Name"))


def _kind(document: Mapping[str, Any]) -> str | None:
    if document.get("DocumentType") is None:
        return _TYPES.get(parse_number(document.get("Type")) or 0)
    return _KINDS.get(parse_number(document["DocumentType"]) or 0)


def _is_file(document: Mapping[str, Any]) -> bool:
    return parse_number(document.get("DocumentType")) in _FILES


def _key(number: int, kind: str) -> str:
    return f"civicweb meeting {number} {kind}"
