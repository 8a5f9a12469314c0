"""`primegov`: the public JSON API of PrimeGov portals."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import date
from typing import Any, ClassVar

from clerk.documents.media_types import HTML
from clerk.documents.repository import DocumentRef
from clerk.errors import SourceUnreadable
from clerk.sources.recognition import Recognition
from clerk.sources.vendors.portal import (
    PortalFetcher,
    body_of,
    first_day_of,
    kind_of,
    parse_number,
    prefer_pdf,
    require_field,
    require_list,
)

_PDF, _PAGE = 1, 3
"""Values of `compileOutputType`."""
_MATERIALS = re.compile(r"\b(?:meeting|agenda) materials\b", re.IGNORECASE)


class PrimeGov(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "client": "name of the portal: NAME in NAME.primegov.com",
        "portal": "instead of client: URL of the portal; default: https://NAME.primegov.com",
    }
    required = ("client",)
    default_kinds = ("agenda", "minutes", "notice")
    recognition = Recognition(
        "PrimeGov",
        hosts=(r"(?P<client>[a-z0-9-]+)\.primegov\.com/",),
        paths=(r"/api/v2/PublicPortal/", r"/Public/CompiledDocument\?"),
        markers=("a[href*='/Public/CompiledDocument?' i]", "a[href*='/Portal/Meeting?meetingTemplateId=' i]"),
        fields=(frozenset({"documentList", "dateTime"}),),
        start="/public/portal",
    )

    @property
    def portal(self) -> str:
        return str(self.site.extra.get("portal") or f"https://{self.site.extra.get('client')}.primegov.com").rstrip("/")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        # A meeting of today may be in both lists.
        for year in await self._list_years():
            for ref in self.once(await self._list_documents("ListArchivedMeetings", {"year": year})):
                yield ref
        for ref in self.once(await self._list_documents("ListUpcomingMeetings", {})):
            yield ref

    async def _list_years(self) -> list[int]:
        years = await self._get_list("GetArchivedMeetingYears", {})
        found = {number for year in years if (number := parse_number(year)) is not None and 1900 < number < 2200}
        if years and not found:
            raise SourceUnreadable(f"no year in the answer of {self.portal}: GetArchivedMeetingYears")
        first = self.first_day.year if self.first_day else 0
        return sorted(year for year in found if year >= first)

    async def _list_documents(self, method: str, query: Mapping[str, str | int]) -> list[DocumentRef]:
        meetings = await self._get_list(method, query)
        require_field(meetings, f"{self.portal}: {method}", "documentList")
        return [ref for meeting in meetings for ref in self._parse_meeting(meeting)]

    async def _get_list(self, method: str, query: Mapping[str, str | int]) -> list[Any]:
        url = f"{self.portal}/api/v2/PublicPortal/{method}"
        answer = await self.client.get_json(url, query, headers={"Accept": "application/json"})
        return require_list(answer, url, "a list")

    def _parse_meeting(self, meeting: object) -> list[DocumentRef]:
        """The documents of a meeting of a wanted kind. Others, such as recordings, are ignored."""
        if not isinstance(meeting, dict) or not isinstance(meeting.get("documentList") or [], list):
            self.skip_malformed(f"the entry {str(meeting)[:80]!r}", "is not a meeting")
            return []
        day = first_day_of(meeting.get("dateTime"), meeting.get("date"))
        title = body_of(str(meeting.get("title") or ""))
        if not title:
            self.skip_malformed(f"meeting {meeting.get('id')}", "has no title")
            return []
        return prefer_pdf(self._parse_documents(meeting, title, day))

    def _parse_documents(self, meeting: Mapping[str, Any], title: str, day: date | None) -> Iterator[DocumentRef]:
        for document in meeting.get("documentList") or []:
            kind = _kind(str(document.get("templateName") or "")) if isinstance(document, dict) else None
            if not isinstance(document, dict) or kind is None or not self.is_wanted(kind, day):
                continue
            # Without a form it is a PDF, which the server can make of each template; without a template it is a file.
            form = parse_number(document.get("compileOutputType", _PDF))
            template = parse_number(document.get("templateId", 0))
            if form not in (_PDF, _PAGE) or template is None:
                continue
            if template <= 0 and parse_number(document.get("id")) is None:
                self.skip_malformed(f"a document of meeting {meeting.get('id')}", "has neither templateId nor id")
                continue
            key = f"primegov meeting {meeting.get('id')} template {template}"
            if form == _PAGE:
                url = f"{self.portal}/Portal/Meeting?meetingTemplateId={template}"
                yield DocumentRef(url, title, day, kind, f"{key} page", media_type=HTML)
            elif template > 0:
                query = f"meetingTemplateId={template}&compileOutputType={_PDF}"
                yield DocumentRef(f"{self.portal}/Public/CompiledDocument?{query}", title, day, kind, key)
            else:
                # A summary of votes has no template, only a file.
                query = f"compiledMeetingDocumentFileId={document.get('id')}&compileOutputType={_PDF}"
                key = f"primegov meeting {meeting.get('id')} file {document.get('id')}"
                yield DocumentRef(f"{self.portal}/Public/CompiledDocument?{query}", title, day, kind, key)


def _kind(name: str) -> str | None:
    """The kind that the name of a template says. `Meeting Materials` are an agenda with its attachments."""
    return kind_of(name) or ("packet" if _MATERIALS.search(name) else None)
