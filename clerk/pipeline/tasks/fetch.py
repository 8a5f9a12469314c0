"""The fetch stage: one unit per site. The plugin's code runs in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import psycopg
from procrastinate import exceptions

from clerk.db.sites import SiteRow, read_site
from clerk.documents.repository import run_started_at
from clerk.documents.skipped import SkippedEntry, record_skipped
from clerk.documents.storage import SiteStorage
from clerk.errors import (
    ClaimLost,
    FetchError,
    InvalidPluginResult,
    ParserCrashed,
    PdfError,
    PluginMissing,
    SiteConfigError,
)
from clerk.ocr.engines import find_engine
from clerk.ocr.ocr_engine import EngineReference
from clerk.pipeline.job_context import JobContext
from clerk.plugins import manager
from clerk.plugins.isolation import Heartbeat, call_with_timeout
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.http.client import RateLimitedClient
from clerk.sources.http.limits import HttpLimits
from clerk.sources.sync import SourceSync, SyncResult

logger = logging.getLogger(__name__)

_NOT_FROM_PLUGIN = (
    FetchError,
    ParserCrashed,
    PdfError,
    ClaimLost,
    InvalidPluginResult,
    SiteConfigError,
    psycopg.Error,
    exceptions.JobAborted,
)


def fetch(job: JobContext) -> dict[str, int]:
    """Download a site's new and changed documents."""
    with job.connection() as connection:
        row = read_site(connection, job.subdomain)
    if row is None or not row.scraper:
        edit = f"`clerk site edit {job.subdomain} --scraper …`"
        raise SiteConfigError(f"{job.subdomain} has no scraper: name one with {edit}")
    plugins = manager.load(job.settings)
    plugin, fetcher_class = plugins.resolve("fetcher_class", row.scraper, Fetcher)
    site = Site(job.subdomain, row.name or job.subdomain, read_extra(plugins, row), row.start_year)
    result = _Fetch(job, plugin, fetcher_class, site).run()
    logger.info("fetched: %s", result)
    return {**{str(outcome): number for outcome, number in result.outcomes.items()}, "removed": result.removed}


def read_extra(plugins: manager.Plugins, row: SiteRow) -> dict[str, Any]:
    """The site's `extra`, with the plugin's defaults for missing keys."""
    try:
        own = row.extra_values
    except ValueError as error:
        raise SiteConfigError(f"the extra of {row.subdomain} is not a JSON object ({error})") from error
    defaults = plugins.call_first("fetcher_extra", label=row.scraper)
    if defaults is None:
        return own
    plugin, values = defaults
    if not isinstance(values, Mapping):
        raise InvalidPluginResult(f"plugin {plugin} returned {str(values)[:100]!r} from fetcher_extra, not a mapping")
    return {**values, **own}


class _Fetch:
    """One fetch: the plugin's thread, and the job's thread that waits for it."""

    def __init__(self, job: JobContext, plugin: str, fetcher_class: type[Fetcher], site: Site) -> None:
        self.job = job
        self.plugin = plugin
        self.fetcher_class = fetcher_class
        self.site = site
        self.plugin_heartbeat = Heartbeat()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[SyncResult] | None = None

    def run(self) -> SyncResult:
        try:
            return call_with_timeout(
                self.plugin,
                f"the fetch of {self.site.subdomain}",
                lambda: asyncio.run(self._sync()),
                timeout=self.job.settings.plugin_time_limit,
                heartbeat=self.plugin_heartbeat,
                while_waiting=self._raise_if_cancelled,
                expected=_NOT_FROM_PLUGIN,
            )
        finally:
            # A plugin that timed out still runs in its thread. If it returns to its event loop, it ends there.
            self._cancel()

    async def _sync(self) -> SyncResult:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        settings = self.job.settings
        limits = self._check_extra()
        with self.job.connection() as connection:
            run_start = run_started_at(connection, self.job.run_id)
        async with RateLimitedClient(limits, self.job.connection, self.plugin_heartbeat.beat) as client:
            sync = SourceSync(
                self.plugin,
                self.fetcher_class(self.site, client),
                SiteStorage(settings.storage_dir, self.site.subdomain),
                self.job.connection,
                settings.max_download_bytes,
                self.job.heartbeat,
                self._record_skipped,
                run_start,
                self._engine(),
            )
            return await sync.run()

    def _engine(self) -> EngineReference | None:
        """None if this machine does not have the engine: it may serve no queue but that of fetches."""
        try:
            return EngineReference.of(find_engine(self.job.settings))
        except PluginMissing:
            return None

    def _check_extra(self) -> HttpLimits:
        try:
            self.fetcher_class.check(self.site.extra)
            return HttpLimits.from_settings(self.job.settings, self.site.extra, self.fetcher_class.host_interval)
        except ValueError as error:
            raise SiteConfigError(f"{self.site.subdomain}: {error}") from error

    def _record_skipped(self, count: int, entries: list[SkippedEntry], is_complete: bool) -> int:
        with self.job.connection() as connection:
            return record_skipped(connection, self.site.subdomain, self.job.run_id, count, entries, is_complete)

    def _raise_if_cancelled(self) -> None:
        try:
            self.job.raise_if_cancelled()
        except exceptions.JobAborted:
            self._cancel()
            raise

    def _cancel(self) -> None:
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # the loop was closed after the check
                self._loop.call_soon_threadsafe(self._task.cancel)
