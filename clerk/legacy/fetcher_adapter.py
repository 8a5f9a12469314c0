"""Runs fetchers of legacy clerk. `fetch_events()` downloaded each PDF; here it lists them, and clerk downloads.

Limitations: a request that fails ends the listing instead of returning its status; a fetcher that writes files itself,
or uses the database or the folders of its site, gets an error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from datetime import date, datetime
from functools import cache
from typing import Any, ClassVar
from urllib.parse import urlencode

from clerk.documents.kinds import KINDS
from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import InvalidPluginResult
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.client import FetchResult, HttpResponse, Sink, Validators
from clerk.sources.parse import find_date, find_kind

_NOT_AVAILABLE = frozenset(
    {"db", "dir_prefix", "storage_dir"}
    | {f"{kind}_{folder}_dir" for kind in ("minutes", "agendas", "docs") for folder in ("output", "processed", "html")}
)
_REMOVED_FROM_NAMES = ("SpecialConcurrentMeetingofthe", "ConcurrentMeetingofthe", "Meetingofthe")


class LegacyResponse:
    """What `request` returns: the parts of httpx.Response that fetchers used."""

    status_code = 200

    def __init__(self, response: HttpResponse) -> None:
        self.url = response.url
        self.content = response.content
        self.text = response.text
        self.headers = {"content-type": response.content_type}
        self.cookies: dict[str, str] = {}
        self.json = response.json


class _LegacyMethods:
    """The methods and attributes that legacy clerk's base class had, on top of a legacy fetcher."""

    fetch_events: Callable[[], Any]

    def __init__(self, fetcher: LegacyFetcher, loop: asyncio.AbstractEventLoop) -> None:
        site = fetcher.site
        self._fetcher = fetcher
        self._loop = loop
        self.subdomain = site.subdomain
        self.site = {
            "subdomain": site.subdomain,
            "name": site.name,
            "start_year": site.start_year,
            "extra": json.dumps(dict(site.extra)),
            "pages": 0,
        }
        self.start_year = site.start_year
        self.today = datetime.combine(fetcher.today, datetime.min.time())
        self.all_agendas = bool(site.extra.get("all_agendas"))
        self.total_events = self.total_minutes = self.total_agendas = self.previous_page_count = 0
        self.child_init()

    def __getattr__(self, name: str) -> Any:
        if name == "child_init":
            return lambda: None
        if name in _NOT_AVAILABLE:
            raise AttributeError(f"{name} of legacy clerk is not available: pass each PDF to fetch_and_write_pdf()")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def request(
        self,
        method: str,
        url: str,
        json: Any = None,
        data: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        cookies: Mapping[str, str] | None = None,
    ) -> LegacyResponse:
        """Send a GET or POST request with the rate-limited client, from the thread of `fetch_events`."""
        sent = dict(headers or {})
        if cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        client = self._fetcher.client
        call: Coroutine[Any, Any, HttpResponse]
        match method.upper():
            case "GET":
                call = client.get(f"{url}{'&' if '?' in url else '?'}{urlencode(data)}" if data else url, headers=sent)
            case "POST":
                call = client.post(url, form=data, json=json, headers=sent)
            case _:
                raise ValueError(f"the method {method} is not supported: use GET or POST")
        return LegacyResponse(asyncio.run_coroutine_threadsafe(call, self._loop).result())

    def fetch_and_write_pdf(
        self, url: str, kind: str, meeting: str, date: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Add a PDF to the listing."""
        self._fetcher.add({"url": url, "kind": kind, "meeting": meeting, "date": date, "headers": headers})

    def check_if_exists(self, meeting: str, date: str, kind: str) -> bool:
        """False: a document that is not listed again would count as removed at the source."""
        return False

    def simplified_meeting_name(self, body: str) -> str:
        """The name of a body as legacy clerk wrote it in its folders."""
        name = body.replace(" ", "").replace("*", "").replace("&", "And").replace("/", "And")
        for phrase in _REMOVED_FROM_NAMES:
            name = name.replace(phrase, "")
        return name

    def assert_fetch_dirs(self) -> None:
        """There are no folders to make."""


class LegacyFetcher(Fetcher):
    """A fetcher of legacy clerk, as clerk's."""

    legacy_class: ClassVar[type]

    async def documents(self) -> AsyncIterator[DocumentRef]:
        self._listed: list[DocumentRef] = []
        self._headers: dict[str, Mapping[str, str]] = {}
        kind = type(self.legacy_class.__name__, (_LegacyMethods, self.legacy_class), {})
        loop = asyncio.get_running_loop()
        returned = await asyncio.to_thread(lambda: kind(self, loop).fetch_events())
        if isinstance(returned, Iterable):
            for event in returned:
                if isinstance(event, Mapping):
                    self.add(event)
        for ref in self._listed:
            yield ref

    def add(self, event: Mapping[str, Any]) -> None:
        """Add a document to the listing: `url`, `meeting`, `date`, `kind` and `headers`."""
        url, meeting, kind = event.get("url"), str(event.get("meeting") or ""), str(event.get("kind") or "")
        if not isinstance(url, str) or not url:
            raise InvalidPluginResult(f"fetch_events() listed {str(dict(event))[:200]!r}, which has no url")
        if isinstance(headers := event.get("headers"), Mapping):
            self._headers[url] = headers
        known_kind = kind if kind in KINDS else find_kind(kind) or ""
        self._listed.append(DocumentRef(url, meeting, _parse_day(event.get("date")), known_kind))

    async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        return await self.client.download(ref.url, validators, sink, headers=self._headers.get(ref.url))

    def covers(self, tracked: TrackedDocument) -> bool:
        """Legacy fetchers list from the start year on."""
        return self.site.start_year is None or tracked.date.year >= self.site.start_year


def _parse_day(value: object) -> date | None:
    match value:
        case datetime():
            return value.date()
        case date():
            return value
        case None:
            return None
    return find_date(str(value))


@cache
def adapt(legacy_class: type) -> type[Fetcher]:
    """The class of legacy clerk as a Fetcher; always the same for one class. One with `documents` needs no adapter."""
    if issubclass(legacy_class, Fetcher) and legacy_class.documents is not Fetcher.documents:
        return legacy_class
    return type(f"Legacy{legacy_class.__name__}", (LegacyFetcher,), {"legacy_class": legacy_class})
