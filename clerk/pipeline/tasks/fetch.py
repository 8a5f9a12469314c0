"""The fetch stage: one unit per site. The plugin's code runs in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import psycopg
from procrastinate import App, JobContext, exceptions

from clerk.db.sites import SiteRow, read_site
from clerk.documents.repository import record_skipped, run_started_at
from clerk.documents.storage import SiteStorage
from clerk.errors import ClaimLost, FetchError, InvalidPluginResult, PdfError, SiteConfigError
from clerk.pipeline import engine
from clerk.pipeline.connector import ClerkConnector
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.retry import StageRetry
from clerk.plugins import manager
from clerk.plugins.isolation import Heartbeat, call_with_timeout
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.http.client import Limits, RateLimitedClient
from clerk.sources.sync import SourceSync, SyncResult

logger = logging.getLogger(__name__)


_NOT_THE_PLUGINS_FAULT = (FetchError, PdfError, ClaimLost, InvalidPluginResult, SiteConfigError, psycopg.Error)


def fetch(context: JobContext, subdomain: str, run_id: int, stage: str, content_item_id: int) -> dict[str, int]:
    """Bring a site's documents up to date."""
    connector = context.app.connector
    assert isinstance(connector, ClerkConnector)
    with connector.connection() as connection:
        row = read_site(connection, subdomain)
    if row is None or not row.scraper:
        raise SiteConfigError(f"{subdomain} has no scraper: name one with `clerk site edit {subdomain} --scraper …`")
    plugins = manager.load(connector.settings)
    plugin, fetcher_class = plugins.resolve("fetcher_class", row.scraper, Fetcher)
    site = Site(subdomain, row.name or subdomain, _extra(plugins, row), row.start_year)
    tally = _Fetch(context, connector, plugin, fetcher_class, site, run_id).run()
    logger.info("fetched: %s", tally)
    return {**{str(change): number for change, number in tally.changes.items()}, "vanished": tally.vanished}


def _extra(plugins: manager.Plugins, row: SiteRow) -> dict[str, Any]:
    """The site's own `extra` over the plugin's defaults."""
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
    """The plugin's thread on the one side, the job that waits for it on the other."""

    def __init__(
        self,
        context: JobContext,
        connector: ClerkConnector,
        plugin: str,
        fetcher_class: type[Fetcher],
        site: Site,
        run_id: int,
    ) -> None:
        self.context = context
        self.connector = connector
        self.plugin = plugin
        self.fetcher_class = fetcher_class
        self.site = site
        self.run_id = run_id
        self.heartbeat = Heartbeat()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[SyncResult] | None = None

    def run(self) -> SyncResult:
        try:
            return call_with_timeout(
                self.plugin,
                f"the fetch of {self.site.subdomain}",
                lambda: asyncio.run(self._gather()),
                timeout=self.connector.settings.plugin_time_limit,
                heartbeat=self.heartbeat,
                while_waiting=self._raise_if_cancelled,
                expected=_NOT_THE_PLUGINS_FAULT,
            )
        finally:
            # If the plugin was given up: should it ever come back to its event loop, it ends there.
            self._cancel()

    async def _gather(self) -> SyncResult:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        settings = self.connector.settings
        self._check_extra()
        with self.connector.connection() as connection:
            began = run_started_at(connection, self.run_id)
        async with RateLimitedClient(
            Limits.from_settings(settings), self.connector.connection, self.heartbeat.beat
        ) as client:
            gathering = SourceSync(
                self.plugin,
                self.fetcher_class(self.site, client),
                SiteStorage(settings.storage_dir, self.site.subdomain),
                self.connector.connection,
                settings.max_download_bytes,
                self._report,
                self._note_skipped,
                began,
            )
            return await gathering.run()

    def _check_extra(self) -> None:
        try:
            self.fetcher_class.check(self.site.extra)
        except ValueError as error:
            raise SiteConfigError(f"{self.site.subdomain}: {error}") from error

    def _report(self, done: int, total: int) -> bool:
        job = self.context.job
        assert job.id is not None
        with self.connector.connection() as connection:
            return engine.report_progress(connection, job.id, job.attempts, done, total)

    def _note_skipped(self, reasons: list[str]) -> None:
        with self.connector.connection() as connection:
            record_skipped(connection, self.run_id, reasons)

    def _raise_if_cancelled(self) -> None:
        if self.context.should_abort():
            self._cancel()
            raise exceptions.JobAborted

    def _cancel(self) -> None:
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it closed just now
                self._loop.call_soon_threadsafe(self._task.cancel)


def register(app: App) -> None:
    assert isinstance(app.job_manager, ClerkJobManager)
    retry = StageRetry(app.job_manager, "fetch")
    app.task(name="clerk.fetch", queue="fetch", retry=retry, pass_context=True)(fetch)
