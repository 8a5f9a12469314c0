"""`escribe`: the meeting calendar of eSCRIBE portals, listed by one request per year."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import date
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

_LISTS = ("Meetings", "meetings")
_LINKS = ("MeetingDocumentLink", "MeetingDocumentLinks", "MeetingLinks")
"""The third is the name of the portal's method for past meetings."""
_ADDITIONAL = "Additional"
_ITEM = re.compile(r"\bagenda items?\b|\bpoints? de l.ordre du jour\b", re.IGNORECASE)
"""An additional document about an item of the agenda is not an agenda."""
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
        markers=(
            "[src*='MeetingsCalendarView' i]",
            "form[action*='MeetingsCalendarView.aspx' i]",
            "a[href*='FileStream.ashx?DocumentId=' i]",
            ".MeetingTypeList .MeetingTypeNameText",
        ),
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
            require_field(meetings, url, *_LINKS)
            for meeting in meetings:
                for ref in self.once(self._parse(meeting)):
                    yield ref

    def _parse(self, meeting: object) -> list[DocumentRef]:
        links = _links_of(meeting)
        if not isinstance(meeting, dict) or not isinstance(links, list):
            self.skip_malformed(f"the entry {str(meeting)[:80]!r}", "is not a meeting")
            return []
        if not links:
            return []
        names = (meeting.get("MeetingName"), meeting.get("MeetingType"), meeting.get("MeetingTitle"))
        name = next((body for value in names if value and (body := body_of(str(value)))), "")
        number = str(meeting.get("ID") or meeting.get("Id") or "")
        if not name or not number:
            self.skip_malformed(f"meeting {number}", "has no name or no id")
            return []
        days = (meeting.get(field) for field in ("StartDate", "FormattedStart", "MeetingDate", "Start"))
        return prefer_pdf(self._parse_links(links, number, name, first_day_of(*days)))

    def _parse_links(self, links: list[Any], number: str, name: str, day: date | None) -> Iterator[DocumentRef]:
        keys: set[str] = set()
        for link in links:
            if not isinstance(link, dict) or not link.get("Url"):
                self.skip_malformed(f"meeting {number} ({name})", f"has a document without Url: {str(link)[:80]!r}")
                continue
            document_type, title = str(link.get("Type") or ""), str(link.get("Title") or "")
            is_additional = document_type.startswith(_ADDITIONAL)
            # The title is the town's own, in its language; the type is the same everywhere.
            kind = kind_of(f"{document_type} {_ITEM.sub('', title) if is_additional else title}")
            if kind is None or not self.is_wanted(kind, day):
                continue
            file_format = str(link.get("Format") or "")
            short = f"escribe {number} {document_type} {link.get('LanguageId') or ''}".strip()
            long = f"{short} {title}"
            suffix = " page" if file_format.lstrip(".").lower() in ("html", "htm") else ""
            # Several documents of a meeting may have one type, and even one title.
            possible = [key + suffix for key in (short, long, f"{long} {link['Url']}")][is_additional:]
            key = next((key for key in possible if key not in keys), possible[-1])
            keys.add(key)
            yield DocumentRef(
                urljoin(f"{self.portal}/", str(link["Url"])),
                name,
                day,
                kind,
                key,
                media_type=media_type_of(f"x.{file_format.lstrip('.')}"),
            )


def _links_of(meeting: object) -> object:
    return next((meeting[field] for field in _LINKS if meeting.get(field)), []) if isinstance(meeting, dict) else None


def _unwrap(answer: object) -> object:
    """The list in an answer. Some versions send it as text, or in an object with the number of meetings."""
    value = answer.get("d") if isinstance(answer, dict) else answer
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value
    return next((value[name] for name in _LISTS if name in value), value) if isinstance(value, dict) else value
