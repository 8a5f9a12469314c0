"""Requests of commands to sources: detection, and the listing of a source."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from clerk import config
from clerk.cli.connection import Connection
from clerk.cli.output import text
from clerk.errors import ClerkError, FetchError, InvalidPluginResult, ParserCrashed, PdfError, SiteConfigError
from clerk.humanize import join_words, pluralize
from clerk.plugins import manager
from clerk.plugins.isolation import Heartbeat, call_with_timeout
from clerk.sources.detection import detect, detect_by_address, detection_limits
from clerk.sources.detection_result import Candidate, Detection
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.http.client import HttpLimits, RateLimitedClient
from clerk.sources.http.rate_limit import Connect
from clerk.sources.listing import SourceListing, list_source

LISTING_SECONDS = 120
_MAX_BODIES = 8
_SOURCE_ERRORS = (FetchError, ParserCrashed, PdfError, InvalidPluginResult, SiteConfigError)

time_limit_option = click.option(
    "--time-limit",
    type=click.FloatRange(min=0),
    default=LISTING_SECONDS,
    show_default=True,
    help="Seconds for the listing, 0 for no limit. What was listed until then is shown.",
)


class SourceFailed(ClerkError):
    """A source could not be listed, or lists nothing."""

    code = "SourceFailed"


def shared(connection: Connection) -> Connect:
    """The command's connection for the rate limiter, which uses it from other threads."""
    lock = threading.Lock()

    @contextmanager
    def connect() -> Iterator[Connection]:
        with lock:
            yield connection

    return connect


def detect_url(settings: config.Settings, url: str, connect: Callable[[], Connect]) -> Detection:
    """Detect the vendor of an address. `connect` is called only if the address alone does not tell."""
    if (by_address := detect_by_address(url)) is not None:
        return by_address

    async def run(connect: Connect) -> Detection:
        async with RateLimitedClient(detection_limits(HttpLimits.from_settings(settings)), connect) as client:
            return await detect(url, client)

    return asyncio.run(run(connect()))


def list_site(
    settings: config.Settings, connect: Connect, site: Site, scraper: str, seconds: float, report: Callable[[int], None]
) -> SourceListing:
    """List a source. Raises one of the errors of a fetch if it cannot be listed."""
    plugins = manager.load(settings)
    plugin, fetcher_class = plugins.resolve("fetcher_class", scraper, Fetcher)
    defaults = plugins.call_first("fetcher_extra", label=scraper)
    complete = Site(site.subdomain, site.name, {**(defaults[1] if defaults else {}), **site.extra}, site.start_year)
    heartbeat = Heartbeat()

    async def run() -> SourceListing:
        try:
            fetcher_class.check(complete.extra)
        except ValueError as error:
            raise SiteConfigError(f"{site.subdomain}: {error}") from error
        async with RateLimitedClient(HttpLimits.from_settings(settings), connect, heartbeat.beat) as client:
            return await list_source(fetcher_class(complete, client), seconds or None, report)

    return call_with_timeout(
        plugin,
        f"the listing of {site.subdomain}",
        lambda: asyncio.run(run()),
        timeout=settings.plugin_time_limit,
        heartbeat=heartbeat,
        expected=_SOURCE_ERRORS,
    )


def candidate_rows(candidate: Candidate) -> list[tuple[str, Any]]:
    """What was detected, for a table."""
    missing = [("missing", text(", ".join(candidate.missing)))] if candidate.missing else []
    evidence = [("evidence" if not number else "", text(line)) for number, line in enumerate(candidate.evidence)]
    return [
        ("vendor", f"{candidate.scraper} ({candidate.confidence})"),
        ("settings", text(json.dumps(candidate.extra, ensure_ascii=False))),
        *missing,
        *evidence,
    ]


def listing_rows(listing: SourceListing, undated: str = "") -> list[tuple[str, Any]]:
    """What a source lists, for a table. `undated`: more about documents without a date."""
    names = {"unknown kind": "of unknown kind"}
    kinds = join_words([f"{number:,} {names.get(kind, kind)}" for kind, number in listing.kinds.most_common()])
    bodies = [f"{name or 'others'} {number:,}" for name, number in listing.bodies.most_common(_MAX_BODIES)]
    further = len(listing.bodies) - len(bodies)
    rows = [("documents", f"{listing.documents:,}{f': {kinds}' if kinds else ''}")]
    if bodies:
        rows.append(("bodies", ", ".join(bodies) + (f" and {further:,} more" if further else "")))
    if listing.oldest:
        rows.append(("dates", f"{listing.oldest} to {listing.newest}"))
    notes = [
        f"{pluralize(number, 'document')} of a type that clerk does not read: {kind}"
        for kind, number in listing.unreadable.most_common()
    ]
    if listing.undated:
        documents = pluralize(listing.undated, "document")
        notes.append(f"{documents} without a date, which is looked for in the PDF{undated}")
    if listing.skipped:
        first = f"; the first: {listing.reasons[0]}" if listing.reasons else ""
        notes.append(f"{pluralize(listing.skipped, 'entry', 'entries')} skipped{first}")
    if not listing.is_complete:
        notes.append("the listing was stopped at the time limit: there may be more")
    rows += [("note", note) for note in notes]
    return [(name, text(value)) for name, value in rows]


def describe_failure(error: BaseException) -> Mapping[str, str]:
    return {"code": str(getattr(error, "code", type(error).__name__)), "message": str(error)}
