"""What the form of a new site finds at a folder or an address: the fetcher, its settings, and what it lists.

The code is that of `clerk site add --url`. It makes requests, so call it in a thread; the time of each part is limited.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from clerk import config
from clerk.errors import ClerkError, JobError, PluginMissing
from clerk.sources.detection import complete_address
from clerk.sources.detection_result import Candidate
from clerk.sources.fetcher import Site
from clerk.sources.listing import SourceListing, describe_listing
from clerk.sources.redaction import Redaction
from clerk.sources.site_validation import InvalidSite
from clerk.sources.source_lookup import SourceFailed, choose, detect_url, list_site, shared

DETECTION_SECONDS = 60.0
LISTING_SECONDS = 30.0


class LookupFailed(Exception):
    """Nothing usable was found. `field` of the form has the cause."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class FoundSource:
    scraper: str
    extra: dict[str, Any]
    details: list[str]
    """What was found, in words."""


def is_folder(source: str) -> bool:
    return source.startswith("/")


def find_source(
    connection: psycopg.Connection[Any], site: Site, source: str, scraper: str | None, extra: dict[str, Any]
) -> FoundSource:
    """`scraper` selects one of several systems at an address; keys of `extra` are added to the detected ones."""
    settings = config.load()
    if is_folder(source):
        candidate = None
        chosen, values = "directory", {"path": source, **extra}
        details = [f"Folder: {source}"]
    else:
        candidate = _detect(settings, connection, source, scraper)
        chosen, values = candidate.scraper, {**candidate.extra, **extra}
        details = _describe(candidate, values)
    site = Site(site.subdomain, site.name, values, site.start_year)
    listing = _list(settings, connection, site, chosen, source)
    if not listing.documents:
        skipped = f" ({listing.reasons[0]})" if listing.reasons else ""
        what = "The folder has no documents" if candidate is None else f"{chosen} lists no documents there"
        raise LookupFailed("source", f"{what}{skipped}. Check the {'path' if candidate is None else 'address'}.")
    details += [f"{name.capitalize()}: {value}" for name, value in describe_listing(listing)]
    return FoundSource(chosen, values, details)


def _detect(
    settings: config.Settings, connection: psycopg.Connection[Any], source: str, scraper: str | None
) -> Candidate:
    def connect() -> Any:
        return shared(connection)

    try:
        return choose(detect_url(settings, complete_address(source), connect, seconds=DETECTION_SECONDS), scraper)
    except InvalidSite as error:
        raise LookupFailed("scraper", f"{_sentence(error.what)} Choose one under “Further settings”.") from error
    except SourceFailed as error:
        remedy = "Check the address, or choose the fetcher yourself under “Further settings”."
        raise LookupFailed("source", f"{_sentence(error.what)} {remedy}") from error
    except JobError as error:
        raise LookupFailed("source", _sentence(str(error))) from error


def _list(
    settings: config.Settings, connection: psycopg.Connection[Any], site: Site, scraper: str, source: str
) -> SourceListing:
    report: Callable[[int], None] = lambda number: None  # noqa: E731
    try:
        return list_site(settings, shared(connection), site, scraper, LISTING_SECONDS, report)
    except PluginMissing as error:
        raise LookupFailed("scraper", _sentence(str(error))) from error
    except (JobError, ClerkError) as error:
        raise LookupFailed("source", f"{_sentence(str(error))} Nothing was added.") from error


def _describe(candidate: Candidate, extra: dict[str, Any]) -> list[str]:
    shown = json.dumps(Redaction().settings(extra), ensure_ascii=False)
    evidence = f": {candidate.evidence[0]}" if candidate.evidence else ""
    return [f"Vendor: {candidate.scraper} ({candidate.confidence}{evidence})", f"Settings: {shown}"]


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?")) else f"{text}."
