"""`civicclerk`: the OData API of CivicClerk portals, which lists events with their published files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import urljoin

from clerk.documents.media_types import media_type_of
from clerk.documents.repository import DocumentRef
from clerk.errors import SourceUnreadable
from clerk.sources.http.client import FetchResult, Sink, Validators
from clerk.sources.recognition import Recognition
from clerk.sources.vendors.portal import (
    MAX_PAGES,
    PortalFetcher,
    body_of,
    first_day_of,
    kind_of,
    require_field,
    require_list,
)

_KINDS = {"1": "agenda", "2": "packet", "4": "minutes"}
_MAX_ADDRESS = 5000


class CivicClerk(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "client": "the name of the portal: NAME in NAME.portal.civicclerk.com",
        "api": "instead of client: URL of the API; default: https://NAME.api.civicclerk.com/v1",
        "portal": "URL of the portal; default: https://NAME.portal.civicclerk.com",
    }
    required = ("client",)
    recognition = Recognition(
        "CivicClerk",
        hosts=(r"(?P<client>[a-z0-9-]+)\.(?:portal\.|api\.)?civicclerk\.com/",),
        paths=(r"(?P<base>/v1)/(?:Events|Meetings)\b",),
        base="api",
        fields=(frozenset({"eventName", "publishedFiles"}),),
    )
    urls = ("api", "portal")
    address = "api"

    @property
    def api(self) -> str:
        return str(
            self.site.extra.get("api") or f"https://{self.site.extra.get('client')}.api.civicclerk.com/v1"
        ).rstrip("/")

    @property
    def headers(self) -> dict[str, str]:
        """Some portals answer only to requests from their own pages."""
        client = self.site.extra.get("client")
        portal = self.site.extra.get("portal") or (client and f"https://{client}.portal.civicclerk.com")
        origin = {"Origin": str(portal).rstrip("/"), "Referer": f"{str(portal).rstrip('/')}/"} if portal else {}
        return {**origin, "Accept": "application/json"}

    async def documents(self) -> AsyncIterator[DocumentRef]:
        query: dict[str, str | int] = {
            "$filter": f"startDateTime ge {self.listed_from}",
            "$orderby": "startDateTime asc, eventName asc",
        }
        url = f"{self.api}/Events"
        requested: set[str] = set()
        for page in range(MAX_PAGES):
            requested.add(url)
            answer = await self.client.get_json(url, query if page == 0 else None, headers=self.headers)
            events = answer.get("value") if isinstance(answer, dict) else answer
            for event in self._require_files(require_list(events, url, "an object with the list 'value'"), url):
                for ref in self._parse(event):
                    yield ref
            following = answer.get("@odata.nextLink") if isinstance(answer, dict) else None
            if not following:
                return
            url = urljoin(url, str(following)[:_MAX_ADDRESS])
            if url in requested:
                raise SourceUnreadable(f"the answer of {url[:200]} names itself as the next page")
        raise SourceUnreadable(f"{self.api}/Events has more than {MAX_PAGES:,} pages")

    def _require_files(self, events: list[Any], url: str) -> list[Any]:
        """The events, unless they have agendas but no list of files: then the answer is not understood."""
        if any(event.get("hasAgenda") is True for event in events if isinstance(event, dict)):
            require_field(events, url, "publishedFiles")
        return events

    def _parse(self, event: object) -> Iterator[DocumentRef]:
        files = event.get("publishedFiles") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(files or [], list):
            self.skip_malformed(f"the entry {str(event)[:80]!r}", "is not an event")
            return
        if not files or event.get("isDeleted") is True:
            return
        name = f"event {event.get('id')} ({event.get('eventName')})"
        meeting = body_of(str(event.get("eventCategoryName") or event.get("categoryName") or "")) or body_of(
            str(event.get("eventName") or "")
        )
        if not meeting:
            self.skip_malformed(name, "has no category and no name")
            return
        # The times are local, although they end in Z.
        day = first_day_of(event.get("eventDate"), event.get("startDateTime"))
        for file in files:
            number = file.get("fileId") or file.get("id") if isinstance(file, dict) else None
            if not isinstance(file, dict) or not str(number or "").isdecimal():
                self.skip_malformed(name, f"has a file without fileId: {str(file)[:80]!r}")
                continue
            names = (str(file.get("type") or ""), str(file.get("name") or ""))
            kind = kind_of(*names) or _KINDS.get(str(file.get("fileType") or ""))
            if kind is not None and self.is_wanted(kind, day):
                yield DocumentRef(
                    f"{self.api}/Meetings/GetMeetingFileStream(fileId={number},plainText=false)",
                    meeting,
                    day,
                    kind,
                    f"civicclerk file {number}",
                    str(file.get("publishOn") or ""),
                    media_type=media_type_of(str(file.get("url") or "")),
                )

    async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        return await self.client.download(ref.url, validators, sink, headers={**self.headers, "Accept": "*/*"})
