"""`escribe`: the meeting calendar of eSCRIBE portals, listed by one request per year."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import urljoin

from clerk.documents.media_types import media_type_of
from clerk.documents.repository import DocumentRef
from clerk.sources.recognition import Recognition
from clerk.sources.vendors.portal import (
    PortalFetcher,
    body_of,
    first_day_of,
    kind_of,
    prefer_pdf,
    require_field,
    require_list,
)

_METHOD = "MeetingsCalendarView.aspx/GetCalendarMeetings"
_HEADERS = {"Accept": "application/json", "X-Requested-With": "XMLHttpRequest"}


class Escribe(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "client": "the name of the portal: NAME in pub-NAME.escribemeetings.com",
        "portal": "instead of client: URL of the portal; default: https://pub-NAME.escribemeetings.com",
    }
    required = ("client",)
    recognition = Recognition(
        "eSCRIBE",
        hosts=(r"pub-(?P<client>[a-z0-9-]+)\.escribemeetings\.com/", r"(?P<portal>[a-z0-9-]+\.escribemeetings\.com)/"),
        paths=(r"/MeetingsCalendarView\.aspx", r"/FileStream\.ashx\?DocumentId="),
        markers=("[src*='MeetingsCalendarView' i]", "a[href*='FileStream.ashx?DocumentId=' i]"),
        fields=(frozenset({"MeetingName", "MeetingDocumentLink"}),),
        start="/MeetingsCalendarView.aspx",
    )

    @property
    def portal(self) -> str:
        default = f"https://pub-{self.site.extra.get('client')}.escribemeetings.com"
        return str(self.site.extra.get("portal") or default).rstrip("/")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        url = f"{self.portal}/{_METHOD}"
        for first, last in self.years():
            window = {"calendarStartDate": str(first), "calendarEndDate": str(last)}
            answer = (await self.client.post(url, json=window, headers=_HEADERS)).json()
            meetings = require_list(_unwrap(answer), url, "an object with the list 'd'")
            require_field(meetings, url, "MeetingDocumentLink", "MeetingDocumentLinks")
            for meeting in meetings:
                for ref in self.once(self._parse(meeting)):
                    yield ref

    def _parse(self, meeting: object) -> list[DocumentRef]:
        links = (
            meeting.get("MeetingDocumentLink") or meeting.get("MeetingDocumentLinks")
            if isinstance(meeting, dict)
            else None
        )
        if not isinstance(meeting, dict) or not isinstance(links or [], list):
            self.skip_malformed(f"the entry {str(meeting)[:80]!r}", "is not a meeting")
            return []
        if not links:
            return []
        names = (meeting.get("MeetingName"), meeting.get("MeetingType"), meeting.get("MeetingTitle"))
        name = next((body for value in names if value and (body := body_of(str(value)))), "")
        if not name or not meeting.get("ID"):
            self.skip_malformed(f"meeting {meeting.get('ID')}", "has no name or no id")
            return []
        return prefer_pdf(self._parse_links(meeting, links, name))

    def _parse_links(self, meeting: Mapping[str, Any], links: list[Any], name: str) -> Iterator[DocumentRef]:
        day = first_day_of(meeting.get("StartDate"), meeting.get("FormattedStart"))
        keys: set[str] = set()
        for link in links:
            if not isinstance(link, dict) or not link.get("Url"):
                self.skip_malformed(
                    f"meeting {meeting['ID']} ({name})", f"has a document without Url: {str(link)[:80]!r}"
                )
                continue
            document_type, title = str(link.get("Type") or ""), str(link.get("Title") or "")
            # The title is the town's own, in its language; the type is the same everywhere.
            kind = kind_of(f"{document_type} {title}")
            if kind is None or not self.is_wanted(kind, day):
                continue
            file_format = str(link.get("Format") or "")
            key = f"escribe {meeting['ID']} {document_type} {link.get('LanguageId') or ''}".strip()
            key = f"{key} {title}" if document_type.startswith("Additional") or key in keys else key
            is_page = file_format.lstrip(".").lower() in ("html", "htm")
            keys |= set() if is_page else {key}
            yield DocumentRef(
                urljoin(f"{self.portal}/", str(link["Url"])),
                name,
                day,
                kind,
                f"{key} page" if is_page else key,
                media_type=media_type_of(f"x.{file_format.lstrip('.')}"),
            )


def _unwrap(answer: object) -> object:
    """The list in an answer. Some versions send it as text."""
    value = answer.get("d") if isinstance(answer, dict) else answer
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
