"""`primegov`: the public JSON API of PrimeGov portals."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from datetime import date
from typing import Any, ClassVar

from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Fetcher, check_since
from clerk.sources.parse import find_date, find_kind
from clerk.sources.recognition import Recognition

_PDF = 1
_CLIENT = re.compile(r"[A-Za-z0-9-]+")


class PrimeGov(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "client": "name of the portal: NAME in NAME.primegov.com",
        "since": "date of the oldest documents, such as 2020-01-01; default: the site's start year",
        "portal": "URL of the portal; default: https://NAME.primegov.com",
    }
    required = ("client",)
    recognition = Recognition(
        "PrimeGov",
        hosts=(r"(?P<client>[a-z0-9-]+)\.primegov\.com/",),
        paths=(r"/api/v2/PublicPortal/", r"/Public/CompiledDocument\?"),
        markers=("a[href*='/Public/CompiledDocument?' i]", "a[href*='/Portal/Meeting?meetingTemplateId=' i]"),
        fields=(frozenset({"documentList", "dateTime"}),),
        start="/public/portal",
    )

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not _CLIENT.fullmatch(str(extra["client"])):
            raise ValueError("extra 'client' must be the NAME in NAME.primegov.com, not a URL")
        check_since(extra)

    @property
    def portal(self) -> str:
        return str(self.site.extra.get("portal") or f"https://{self.site.extra['client']}.primegov.com").rstrip("/")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        listed: set[str] = set()
        for year in await self._list_years():
            for ref in await self._list_documents("ListArchivedMeetings", {"year": year}):
                listed.add(ref.key)
                yield ref
        # A meeting of today may be in both lists.
        for ref in await self._list_documents("ListUpcomingMeetings", {}):
            if ref.key not in listed:
                yield ref

    async def _list_years(self) -> list[int]:
        years = await self._get_list("GetArchivedMeetingYears", {})
        first = self.first_day.year if self.first_day else 0
        return sorted({int(year) for year in years if str(year).isdecimal() and int(year) >= first})

    async def _list_documents(self, method: str, query: Mapping[str, str | int]) -> list[DocumentRef]:
        return [ref for meeting in await self._get_list(method, query) for ref in self._parse_meeting(meeting)]

    async def _get_list(self, method: str, query: Mapping[str, str | int]) -> list[Any]:
        result = await self.client.get_json(f"{self.portal}/api/v2/PublicPortal/{method}", query)
        if not isinstance(result, list):
            raise SourceUnreadable(f"{self.portal}: {method} did not return a list")
        return result

    def _parse_meeting(self, meeting: object) -> list[DocumentRef]:
        """Return the documents of a meeting that are PDFs of a known kind. Others, such as recordings, are ignored."""
        if not isinstance(meeting, dict) or not isinstance(meeting.get("documentList") or [], list):
            self.skip(f"the entry {str(meeting)[:100]!r} is not a meeting")
            return []
        day = find_date(str(meeting.get("dateTime", ""))[:10])
        title = str(meeting.get("title") or "").strip()
        if not title:
            self.skip(f"meeting {meeting.get('id')} has no title", name=f"meeting {meeting.get('id')}")
            return []
        if self.first_day and day is not None and day < self.first_day:
            return []
        return [
            ref
            for document in meeting.get("documentList") or []
            if isinstance(document, dict) and (ref := self._parse_document(meeting, document, title, day)) is not None
        ]

    def _parse_document(
        self, meeting: Mapping[str, Any], document: Mapping[str, Any], title: str, day: date | None
    ) -> DocumentRef | None:
        kind = find_kind(str(document.get("templateName") or ""))
        template = document.get("templateId")
        if kind is None or document.get("compileOutputType") != _PDF or not isinstance(template, int):
            return None
        url = f"{self.portal}/Public/CompiledDocument?meetingTemplateId={template}&compileOutputType={_PDF}"
        return DocumentRef(url, title, day, kind, f"primegov meeting {meeting.get('id')} template {template}")

    def covers(self, tracked: TrackedDocument) -> bool:
        return self.first_day is None or tracked.date >= self.first_day
