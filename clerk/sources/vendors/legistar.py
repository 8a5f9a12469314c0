"""`legistar`: the Legistar web API. Events with agenda and minutes files, a thousand at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import date
from typing import Any, ClassVar

from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Fetcher
from clerk.sources.parse import find_date

_API = "https://webapi.legistar.com/v1"
_PAGE = 1000
_FILES = (
    ("agenda", "EventAgendaFile", "EventAgendaLastPublishedUTC"),
    ("minutes", "EventMinutesFile", "EventMinutesLastPublishedUTC"),
)


class Legistar(Fetcher):
    extra_help: ClassVar[Mapping[str, str]] = {
        "client": "the client's name in the API, as in webapi.legistar.com/v1/NAME",
        "since": "the first day wanted, as 2020-01-01; default: from the site's start year on",
        "token": "the API token, for clients that need one",
        "api": f"another address of the API; default: {_API}",
    }
    required = ("client",)

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not str(extra["client"]).replace("-", "").replace("_", "").isalnum():
            raise ValueError("extra 'client' is a name of letters and digits, not an address")
        check_since(extra)

    async def documents(self) -> AsyncIterator[DocumentRef]:
        url = f"{str(self.site.extra.get('api') or _API).rstrip('/')}/{self.site.extra['client']}/events"
        skip = 0
        while True:
            events = await self.client.get_json(url, self._query(skip))
            if not isinstance(events, list):
                raise SourceUnreadable(f"{url} does not answer with a list of events")
            for event in events:
                for found in self._files(event):
                    yield found
            if len(events) < _PAGE:
                return
            skip += len(events)

    def _query(self, skip: int) -> dict[str, str | int]:
        query: dict[str, str | int] = {"$orderby": "EventDate asc,EventId asc", "$top": _PAGE, "$skip": skip}
        if self.first_day:
            query["$filter"] = f"EventDate ge datetime'{self.first_day}'"
        if token := self.site.extra.get("token"):
            query["token"] = str(token)
        return query

    def _files(self, event: object) -> list[DocumentRef]:
        if not isinstance(event, dict):
            self.skip(f"an event is {str(event)[:100]!r}")
            return []
        files = [(kind, event[file], event.get(published)) for kind, file, published in _FILES if event.get(file)]
        day = find_date(str(event.get("EventDate", ""))[:10])
        number, body = event.get("EventId"), event.get("EventBodyName")
        if files and (day is None or not number or not body):
            self.skip(f"event {number} has no date or no name")
            return []
        assert day is not None or not files
        return [
            DocumentRef(
                str(url), str(body), day or date.min, kind, f"legistar event {number} {kind}", str(published or "")
            )
            for kind, url, published in files
        ]

    def covers(self, known: TrackedDocument) -> bool:
        return self.first_day is None or known.date >= self.first_day


def check_since(extra: Mapping[str, Any]) -> None:
    try:
        if extra.get("since"):
            date.fromisoformat(str(extra["since"]))
    except ValueError as error:
        raise ValueError("extra 'since' is a day such as 2020-01-01") from error
