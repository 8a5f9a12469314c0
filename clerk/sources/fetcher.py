"""Base class of fetchers: lists the documents of a source and downloads one of them.

clerk compares the listing with the database, checks and hashes the downloads, names the files and records the results.
A fetcher writes no files, does not use the database, and accesses the network through the rate-limited client only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.documents.skipped import MAX_ENTRIES, SkippedEntry
from clerk.errors import SourceUnreadable
from clerk.humanize import pluralize, shorten
from clerk.sources.link_parser import LinkPage, LinkParser
from clerk.sources.recognition import Recognition
from clerk.sources.rows import RowPage

if TYPE_CHECKING:
    from clerk.sources.http.client import FetchResult, HttpResponse, RateLimitedClient, Sink, Validators

logger = logging.getLogger(__name__)

_MAX_REASONS = 20
"""As many as are logged and stored with the run."""
_MAX_REASON_LENGTH = 300
_MIN_LABEL = 40
"""So much of the name of an entry says which it is."""
Parsed = TypeVar("Parsed", LinkPage, RowPage)


@dataclass(frozen=True)
class Site:
    """The site that a fetcher works for."""

    subdomain: str
    name: str
    extra: Mapping[str, Any]
    """The site's `extra`, with defaults from the plugin's `fetcher_extra`."""
    start_year: int | None = None


class Fetcher:
    """Base class of all fetchers. A subclass implements `documents`, and `check` to validate `extra`."""

    extra_help: ClassVar[Mapping[str, str]] = {}
    """Description of each key of `extra`, shown by `clerk plugins` and in error messages."""
    extra_types: ClassVar[Mapping[str, type]] = {}
    """Type of each key of `extra` whose value is not text, for the options of `clerk site add`: bool, list, or
    pathlib.Path for a file or folder on this machine."""
    required: ClassVar[tuple[str, ...]] = ()
    """Keys of `extra` that a site must have."""
    host_interval: ClassVar[float] = 0.0
    """Seconds between two requests to one host, if the source wants more than CLERK_HOST_INTERVAL."""

    recognition: ClassVar[Recognition] = Recognition()
    """How `clerk site detect` recognises the vendor."""

    def __init__(self, site: Site, client: RateLimitedClient) -> None:
        self.site = site
        self.client = client
        self.skipped: list[str] = []
        """Why entries of the listing were skipped, one sentence each, for the first 20. See `skip`."""
        self.skipped_count = 0
        self.skipped_entries: list[SkippedEntry] = []
        """The skipped entries, at most MAX_ENTRIES; further ones are only counted."""
        self.known: frozenset[str] = frozenset()
        """Keys of the documents that earlier fetches of the site stored. A listing that needs a request per meeting can
        leave out old meetings by them; `covers` must then say so."""
        self.today = date.today()
        """The day of the listing. Use it for windows of dates instead of `date.today()`: a replay of recorded answers
        has the day on which they were recorded."""
        self._link_parser = LinkParser()

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        """Raise ValueError if `extra` is invalid. Called when a site is added or changed, and before each fetch."""
        for key in cls.required:
            if not extra.get(key):
                raise ValueError(f"extra needs {key!r}: {cls.extra_help.get(key, 'see the documentation')}")

    def documents(self) -> AsyncIterator[DocumentRef]:
        """Yield all documents that the source has now.

        Documents that are not listed are recorded as removed at the source: if the listing is interrupted, raise.
        """
        raise NotImplementedError

    def skip(self, reason: str, count: int = 1, *, name: str = "", url: str = "") -> None:
        """Skip an entry of the listing; the run stores the reason. If all entries are skipped, the fetch fails.

        A document of which only the date is missing is not skipped: yield it with the date None. `count`: the number of
        entries that are skipped for this reason. `name` and `url`: of the entry, if it has them. The name is put
        before a reason that does not contain it.
        """
        label, reason = name or url, str(reason)
        if label[:_MIN_LABEL] not in reason:
            reason = f"{shorten(label)}: {reason}"
        self.skip_entry(SkippedEntry(reason[:_MAX_REASON_LENGTH], key=label, name=label, url=url), count)

    def skip_entry(self, entry: SkippedEntry, count: int = 1) -> None:
        self.skipped_count += count
        if len(self.skipped_entries) < MAX_ENTRIES:
            self.skipped_entries.append(entry)
        if len(self.skipped) < _MAX_REASONS:
            logger.warning("%s: %s", self.site.subdomain, entry.reason)
            self.skipped.append(entry.reason)
            if len(self.skipped) == _MAX_REASONS:
                logger.warning("%s: further skipped entries are counted, not logged", self.site.subdomain)

    async def parse_links(self, page: HttpResponse, patterns: Sequence[str] = ()) -> LinkPage:
        """The title and links of an HTML page, parsed in a process with limits. Links with an address of more than
        2,000 bytes are skipped. `patterns` are regular expressions for addresses: see `Link.matches`."""
        return await self._run_parser(page, lambda: self._link_parser.parse(page.url, page.text, patterns))

    async def parse_rows(
        self,
        page: HttpResponse,
        rows: str,
        container: str,
        cells: str = "td, th",
        *,
        fields: bool | str = False,
        required: bool = True,
        links: str = "",
    ) -> RowPage:
        """The rows of a listing in an HTML page, parsed in a process with limits. `rows`, `container` and `cells` are
        CSS selectors; `fields`: with the hidden form fields, or those that match a selector. Raises SourceUnreadable if
        a `required` container is missing: the page is not the listing that it should be.

        `links` is a regular expression for the addresses of documents, with a group for the number of the meeting.
        Links to documents that are in none of the `rows` form further rows: the largest elements that have links of
        one meeting. With it, a page that another town has built differently is read too."""
        selectors: dict[str, str | bool] = {"rows": rows, "container": container, "cells": cells, "fields": fields}
        selectors |= {"links": links} if links else {}
        parsed = await self._run_parser(page, lambda: self._link_parser.parse_rows(page.url, page.text, selectors))
        if required and not parsed.containers:
            raise SourceUnreadable(f"no {container} in the answer of {page.url[:200]}")
        return parsed

    async def _run_parser(self, page: HttpResponse, parse: Callable[[], Parsed]) -> Parsed:
        try:
            parsed = await asyncio.to_thread(parse)
        except asyncio.CancelledError:
            self._link_parser.kill()
            raise
        if count := parsed.too_long:
            links = pluralize(count, "link")
            self.skip(f"{page.url[:200]} has {links} with an address that is too long", count)
        return parsed

    def close(self) -> None:
        """Called when the listing has ended."""
        self._link_parser.close()

    def covers(self, tracked: TrackedDocument) -> bool:
        """Whether the listing would include this document if the source still had it.

        For example, a listing since a date does not cover older documents, so they do not count as removed.
        """
        return True

    async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        """Download one document into `sink`. Override it if a GET request for the URL does not return the PDF."""
        return await self.client.download(ref.url, validators, sink)

    @property
    def first_day(self) -> date | None:
        """Date of the oldest documents to list: `since` of `extra`, else 1 January of the site's start_year."""
        if since := self.site.extra.get("since"):
            return date.fromisoformat(str(since))
        return date(self.site.start_year, 1, 1) if self.site.start_year else None


def check_since(extra: Mapping[str, Any]) -> None:
    """Raise ValueError if `extra` has an invalid `since`. For fetchers that use `first_day`."""
    try:
        if extra.get("since"):
            date.fromisoformat(str(extra["since"]))
    except ValueError as error:
        raise ValueError("extra 'since' must be a date such as 2020-01-01") from error
