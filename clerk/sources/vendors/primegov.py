"""`primegov`: the public JSON API of PrimeGov portals."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from datetime import date
from typing import Any, ClassVar

from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Fetcher
from clerk.sources.parse import find_date, find_kind
from clerk.sources.vendors.legistar import check_since

_PDF = 1
_CLIENT = re.compile(r"[A-Za-z0-9-]+")


class PrimeGov(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "client": "the portal's name, as in NAME.primegov.com",
        "since": "the first day wanted, as 2020-01-01; default: from the site's start year on",
        "portal": "another address of the portal; default: https://NAME.primegov.com",
    }
    required = ("client",)

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not _CLIENT.fullmatch(str(extra["client"])):
            raise ValueError("extra 'client' is the first part of NAME.primegov.com, not an address")
        check_since(extra)

    @property
    def portal(self) -> str:
        return str(self.site.extra.get("portal") or f"https://{self.site.extra['client']}.primegov.com").rstrip("/")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        named: set[str] = set()
        for year in await self._years():
            for found in await self._meetings("ListArchivedMeetings", {"year": year}):
                named.add(found.key)
                yield found
        # A meeting of today may be in both lists.
        for found in await self._meetings("ListUpcomingMeetings", {}):
            if found.key not in named:
                yield found

    async def _years(self) -> list[int]:
        years = await self._list("GetArchivedMeetingYears", {})
        first = self.first_day.year if self.first_day else 0
        return sorted({int(year) for year in years if str(year).isdecimal() and int(year) >= first})

    async def _meetings(self, name: str, query: Mapping[str, str | int]) -> list[DocumentRef]:
        meetings = await self._list(name, query)
        return [found for meeting in meetings for found in self.read(meeting)]

    async def _list(self, name: str, query: Mapping[str, str | int]) -> list[Any]:
        answer = await self.client.get_json(f"{self.portal}/api/v2/PublicPortal/{name}", query)
        if not isinstance(answer, list):
            raise SourceUnreadable(f"{self.portal} does not answer {name} with a list")
        return answer

    def read(self, meeting: object) -> list[DocumentRef]:
        """The PDFs of one meeting that are agendas or minutes; notices are left out."""
        if not isinstance(meeting, dict) or not isinstance(meeting.get("documentList") or [], list):
            self.skip(f"a meeting is {str(meeting)[:100]!r}")
            return []
        day = find_date(str(meeting.get("dateTime", ""))[:10])
        title = str(meeting.get("title") or "").strip()
        if day is None or not title:
            self.skip(f"meeting {meeting.get('id')} has no date or no title")
            return []
        if self.first_day and day < self.first_day:
            return []
        return [
            found
            for document in meeting.get("documentList") or []
            if isinstance(document, dict) and (found := self._document(meeting, document, title, day)) is not None
        ]

    def _document(
        self, meeting: Mapping[str, Any], document: Mapping[str, Any], title: str, day: date
    ) -> DocumentRef | None:
        kind = find_kind(str(document.get("templateName") or ""))
        template = document.get("templateId")
        if kind is None or document.get("compileOutputType") != _PDF or not isinstance(template, int):
            return None
        url = f"{self.portal}/Public/CompiledDocument?meetingTemplateId={template}&compileOutputType={_PDF}"
        return DocumentRef(url, title, day, kind, f"primegov meeting {meeting.get('id')} template {template}")

    def covers(self, known: TrackedDocument) -> bool:
        return self.first_day is None or known.date >= self.first_day
