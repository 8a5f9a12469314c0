"""What a fetcher is: it says which documents a source has, and gets one when asked. The rest is clerk's.

A fetcher lists; clerk decides what is new, downloads, checks, hashes, names files and keeps the books. So a fetcher
never writes a file, never sees the database, and reaches the network through the polite client only.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar

from clerk.documents.repository import DocumentRef, TrackedDocument

if TYPE_CHECKING:
    from clerk.sources.http.client import FetchResult, RateLimitedClient, Sink, Validators

logger = logging.getLogger(__name__)

KINDS = ("minutes", "agenda")


@dataclass(frozen=True)
class Site:
    """What a fetcher may know about the site it works for."""

    subdomain: str
    name: str
    extra: Mapping[str, Any]
    """The site's `extra`, over the defaults of the plugin's `fetcher_extra`."""
    start_year: int | None = None


class Fetcher:
    """Base of all fetchers. A subclass writes `documents`; and `check`, to tell mistakes when a site is added."""

    extra_help: ClassVar[Mapping[str, str]] = {}
    """Key of `extra` → what it is for. Shown by `clerk plugins` and in messages."""
    required: ClassVar[tuple[str, ...]] = ()
    """Keys of `extra` without which it cannot work."""

    def __init__(self, site: Site, client: RateLimitedClient) -> None:
        self.site = site
        self.client = client
        self.skipped: list[str] = []
        """Entries of the listing that no document can be made of, each with its reason. See `skip`."""

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        """Raise ValueError with a sentence for people if `extra` cannot be right."""
        for key in cls.required:
            if not extra.get(key):
                raise ValueError(f"extra needs {key!r}: {cls.extra_help.get(key, 'see the documentation')}")

    def documents(self) -> AsyncIterator[DocumentRef]:
        """All documents that the source has now. Ending early means that the rest has vanished: raise instead."""
        raise NotImplementedError

    def skip(self, why: str) -> None:
        """Pass over an entry that cannot be used, and say why: it is kept with the run. Nothing but such ones fails."""
        logger.warning("%s: %s", self.site.subdomain, why)
        self.skipped.append(why)

    def covers(self, known: TrackedDocument) -> bool:
        """Would the listing have named this, were it still there? One since a date says no to what is older."""
        return True

    async def download(self, found: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        """Get one document into `sink`. Only for sources where a plain GET of its url is not the way."""
        return await self.client.download(found.url, validators, sink)

    @property
    def first_day(self) -> date | None:
        """The day before which nothing is wanted: `since` of `extra`, or the site's start_year."""
        if since := self.site.extra.get("since"):
            return date.fromisoformat(str(since))
        return date(self.site.start_year, 1, 1) if self.site.start_year else None
