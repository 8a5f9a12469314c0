"""What operators see of a source before it becomes a site: detection of its vendor, and its listing."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg

from clerk import config
from clerk.errors import ClerkError, FetchError, InvalidPluginResult, ParserCrashed, PdfError, SiteConfigError
from clerk.plugins import manager
from clerk.plugins.isolation import Heartbeat, call_with_timeout
from clerk.sources.detection import detect, detect_by_address, detection_limits
from clerk.sources.detection_result import Candidate, Detection
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.http.client import HttpLimits, RateLimitedClient
from clerk.sources.http.rate_limit import Connect
from clerk.sources.listing import SourceListing, list_source
from clerk.sources.site_validation import InvalidSite

Connection = psycopg.Connection[Any]

WITHOUT_VENDOR = (
    "if the page has links to PDFs, `clerk site add NAME --scraper links --pages URL` fetches them (docs/fetchers.md)"
)
_SOURCE_ERRORS = (FetchError, ParserCrashed, PdfError, InvalidPluginResult, SiteConfigError)


class SourceFailed(ClerkError):
    """A source could not be listed, or lists nothing."""

    code = "SourceFailed"


def shared(connection: Connection | None) -> Connect | None:
    """The command's connection for the rate limiter, which uses it from other threads. None without a database."""
    if connection is None:
        return None
    lock = threading.Lock()

    @contextmanager
    def connect() -> Iterator[Connection]:
        with lock:
            yield connection

    return connect


def detect_url(
    settings: config.Settings,
    url: str,
    connect: Callable[[], Connect | None],
    extra: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> Detection:
    """Detect the vendor of an address. `connect` is called only if the address alone does not tell. `extra`: of the
    site to be, whose `user_agent` and `budget` count. Raises InvalidSite if they are invalid."""
    if (by_address := detect_by_address(url)) is not None:
        return by_address
    try:
        limits = detection_limits(site_limits(settings, url, extra))
    except SiteConfigError as error:
        raise InvalidSite(str(error), "correct the setting that it names") from error

    async def run(connect: Connect | None) -> Detection:
        async with RateLimitedClient(limits, connect) as client:
            async with asyncio.timeout(seconds):
                return await detect(url, client)

    try:
        return asyncio.run(run(connect()))
    except TimeoutError as error:
        raise SourceFailed(f"{url} was not recognised within {seconds:g} s", "try again later") from error


def site_limits(
    settings: config.Settings, name: str, extra: Mapping[str, Any] | None, host_interval: float = 0.0
) -> HttpLimits:
    """The limits of requests for a site: those of its runs."""
    try:
        return HttpLimits.from_settings(settings, extra, host_interval)
    except ValueError as error:
        raise SiteConfigError(f"{name}: {error}") from error


def list_site(
    settings: config.Settings,
    connect: Connect | None,
    site: Site,
    scraper: str,
    seconds: float,
    report: Callable[[int], None],
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
        limits = site_limits(settings, site.subdomain, complete.extra, fetcher_class.host_interval)
        async with RateLimitedClient(limits, connect, heartbeat.beat) as client:
            return await list_source(fetcher_class(complete, client), f"plugin {plugin}", seconds or None, report)

    return call_with_timeout(
        plugin,
        f"the listing of {site.subdomain}",
        lambda: asyncio.run(run()),
        timeout=settings.plugin_time_limit,
        heartbeat=heartbeat,
        expected=_SOURCE_ERRORS,
    )


def choose(detection: Detection, scraper: str | None) -> Candidate:
    """The candidate to add: the only one of this scraper, or the best. Without a vendor, pages with links to
    documents."""
    sources = [*detection.candidates, *([detection.links] if detection.links else [])]
    candidates = [each for each in sources if scraper is None or each.scraper == scraper]
    if not candidates and detection.unknown_host:
        raise SourceFailed(f"there is no host {detection.unknown_host}", "check the address")
    if not candidates and detection.failure:
        raise SourceFailed(f"the address could not be read: {detection.failure}", "check the address")
    if not candidates:
        tried = "; ".join(f"{each.url}: {each.result}" for each in detection.tried[:3])
        what = f"no source of {scraper} was found" if scraper else "no vendor was recognised"
        raise SourceFailed(f"{detection.url}: {what}{f' ({tried})' if tried else ''}", WITHOUT_VENDOR)
    best = candidates[0]
    if len(candidates) > 1 and candidates[1].confidence == best.confidence:
        found = ", ".join(f"{each.scraper} {json.dumps(each.extra)}" for each in candidates[:5])
        raise InvalidSite(
            f"{detection.url} leads to several sources: {found}",
            "choose one with --scraper, or give the address of its portal",
        )
    if best.missing:
        raise InvalidSite(
            f"{detection.url}: the system is {best.scraper}, but {', '.join(best.missing)} was not found",
            f"give the address of its list of meetings, or --scraper {best.scraper} with --extra",
        )
    return best
