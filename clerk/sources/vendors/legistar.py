"""`legistar`: the Legistar web API, which lists events with their agenda and minutes files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Fetcher, check_since
from clerk.sources.parse import find_date
from clerk.sources.recognition import Recognition
from clerk.sources.vendors.portal import MAX_PAGES, require_field

_API = "https://webapi.legistar.com/v1"
_PAGE_SIZE = 1000
_FILES = (
    ("agenda", "EventAgendaFile", "EventAgendaLastPublishedUTC"),
    ("minutes", "EventMinutesFile", "EventMinutesLastPublishedUTC"),
)


class Legistar(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "client": "name of the client in the API: NAME in webapi.legistar.com/v1/NAME",
        "since": "date of the oldest documents, such as 2020-01-01; default: the site's start year",
        "token": "API token, for clients that require one",
        "api": f"base URL of the API; default: {_API}",
    }
    required = ("client",)
    recognition = Recognition(
        "Legistar",
        hosts=(r"webapi\.legistar\.com/v1/(?P<client>[a-z0-9_-]+)", r"(?P<client>[a-z0-9-]+)\.legistar\.com/"),
        documents=(
            r"legistar\d*\.granicus\.com/(?P<client>[a-z0-9_-]+)/",
            r"[a-z0-9-]+\.legistar\d+\.com/(?P<client>[a-z0-9_-]+)/",
        ),
        paths=(r"(?P<base>/v1)/(?P<client>[a-z0-9_-]+)/events\b",),
        base="api",
        fields=(frozenset({"EventId", "EventBodyName", "EventDate"}),),
        probe=f"{_API}/{{client}}/events?$top=1",
        fallback="legistar-calendar",
    )

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not str(extra["client"]).replace("-", "").replace("_", "").isalnum():
            raise ValueError("extra 'client' must be a name of letters and digits, not a URL")
        check_since(extra)

    async def documents(self) -> AsyncIterator[DocumentRef]:
        url = f"{str(self.site.extra.get('api') or _API).rstrip('/')}/{self.site.extra['client']}/events"
        offset = 0
        for _ in range(MAX_PAGES):
            events = await self.client.get_json(url, self._query(offset), headers={"Accept": "application/json"})
            if not isinstance(events, list):
                raise SourceUnreadable(f"{url} did not return a list of events")
            require_field(events, url, *(field for _, field, _ in _FILES))
            for event in events:
                for ref in self._parse(event):
                    yield ref
            if len(events) < _PAGE_SIZE:
                return
            offset += len(events)
        raise SourceUnreadable(f"{url} has more than {MAX_PAGES:,} pages")

    def _query(self, offset: int) -> dict[str, str | int]:
        query: dict[str, str | int] = {"$orderby": "EventDate asc,EventId asc", "$top": _PAGE_SIZE, "$skip": offset}
        if self.first_day:
            query["$filter"] = f"EventDate ge datetime'{self.first_day}'"
        if token := self.site.extra.get("token"):
            query["token"] = str(token)
        return query

    def _parse(self, event: object) -> list[DocumentRef]:
        if not isinstance(event, dict):
            self.skip(f"the entry {str(event)[:100]!r} is not an event")
            return []
        files = [(kind, event[file], event.get(published)) for kind, file, published in _FILES if event.get(file)]
        if not files:
            return []
        day = find_date(str(event.get("EventDate", ""))[:10])
        number, body = event.get("EventId"), event.get("EventBodyName")
        if not number or not body:
            self.skip(f"event {number} has no id or body", name=f"event {number}")
            return []
        return [
            DocumentRef(str(url), str(body), day, kind, f"legistar event {number} {kind}", str(published or ""))
            for kind, url, published in files
        ]

    def covers(self, tracked: TrackedDocument) -> bool:
        return self.first_day is None or tracked.date >= self.first_day
