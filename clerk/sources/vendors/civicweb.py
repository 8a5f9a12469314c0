"""`civicweb`: CivicWeb and Diligent Community portals.

One request per year lists the meetings, and one per meeting its documents. Meetings of more than 400 days ago are
requested until one of their documents is stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import date
from typing import Any, ClassVar

from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.sources.recognition import Recognition
from clerk.sources.vendors.portal import OLD, PortalFetcher, body_of, first_day_of, require_list

_KINDS = {1: "agenda", 4: "agenda", 2: "minutes", 10: "minutes"}
_TYPES = {1: "agenda", 2: "minutes"}
"""Meaning of the field `Type`, for documents of which `DocumentType` is not known."""
_FILES = (4, 10)
"""Stored PDFs. The other types are pages, of which the portal makes a PDF on request."""


class CivicWeb(PortalFetcher):
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
        markers=("a[href*='/Portal/MeetingInformation.aspx?' i]", "a[href*='/Portal/MeetingTypeList.aspx' i]"),
        fields=(
            frozenset({"MeetingDateTime", "Id"}),
            frozenset({"DocumentType", "MeetingId", "Id"}),
        ),
        start="/Portal/MeetingTypeList.aspx",
    )

    @property
    def portal(self) -> str:
        return str(self.site.extra.get("portal") or f"https://{self.site.extra.get('client')}.civicweb.net").rstrip("/")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        service = f"{self.portal}/Services/MeetingsService.svc/meetings"
        listed: set[object] = set()
        for first, last in self.years():
            answer = await self.client.get_json(service, {"from": str(first), "to": str(last), "loadall": "true"})
            meetings = answer.get("Meetings", answer) if isinstance(answer, dict) else answer
            for meeting in require_list(meetings, service):
                number = meeting.get("Id") if isinstance(meeting, dict) else None
                if not isinstance(number, int):
                    self.skip_malformed(f"the entry {str(meeting)[:80]!r}", "is not a meeting")
                elif meeting.get("Published") is not False and number not in listed:
                    listed.add(number)
                    if self.is_old_and_stored(_day(meeting), _key(number, "agenda"), _key(number, "minutes")):
                        continue
                    url = f"{service}/{number}/meetingDocuments"
                    answer = await self.client.get_json(url)
                    found = answer.get("Documents") if isinstance(answer, dict) else answer
                    for ref in self._parse(meeting, require_list(found, url, "a list of documents")):
                        yield ref

    def _parse(self, meeting: Mapping[str, Any], found: list[Any]) -> Iterator[DocumentRef]:
        names = (meeting.get("MeetingTypeName"), meeting.get("CleanName"), meeting.get("Name"))
        name = next((body for value in names if value and (body := body_of(str(value)))), "")
        what = f"meeting {meeting['Id']} ({name})"
        if not name:
            self.skip_malformed(what, "has no name")
            return
        day = _day(meeting)
        by_kind: dict[str, dict[str, Any]] = {}
        for document in found:
            if not isinstance(document, dict) or not isinstance(document.get("Id"), int):
                self.skip_malformed(what, f"has a document without Id: {str(document)[:80]!r}")
            elif kind := _kind(document):
                best = by_kind.setdefault(kind, document)
                if document.get("DocumentType") in _FILES and best.get("DocumentType") not in _FILES:
                    by_kind[kind] = document
        for kind, document in by_kind.items():
            if self.is_wanted(kind, day):
                print_page = "" if document.get("DocumentType") in _FILES else "?printPdf=true"
                url = f"{self.portal}/document/{document['Id']}/{print_page}"
                version = f"{document['Id']} {document['LastModified']}" if document.get("LastModified") else ""
                yield DocumentRef(url, name, day, kind, _key(meeting["Id"], kind), version)

    def covers(self, tracked: TrackedDocument) -> bool:
        return super().covers(tracked) and tracked.date >= self.today - OLD


def _day(meeting: Mapping[str, Any]) -> date | None:
    return first_day_of(meeting.get("MeetingDateTime"), meeting.get("MeetingDate"), meeting.get("Name"))


def _kind(document: Mapping[str, Any]) -> str | None:
    return _KINDS.get(document.get("DocumentType") or 0) or (
        _TYPES.get(document.get("Type") or 0) if document.get("DocumentType") is None else None
    )


def _key(number: int, kind: str) -> str:
    return f"civicweb meeting {number} {kind}"
