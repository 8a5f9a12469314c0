"""The OCR stage: one unit per document. Its errors are in `clerk.errors`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import psycopg
from procrastinate import App, JobContext, exceptions

from clerk.config import Settings
from clerk.db.sites import SiteRow, read_site
from clerk.documents.manifest import Manifest
from clerk.documents.repository import document_by_id, require_fetched
from clerk.documents.storage import Document, SiteStorage
from clerk.errors import ClaimLost, LanguageMissing
from clerk.ocr import process_document, tesseract
from clerk.ocr.process_document import Options
from clerk.pipeline import engine
from clerk.pipeline.connector import ClerkConnector, is_transient
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.retry import StageRetry
from clerk.plugins import manager

logger = logging.getLogger(__name__)

_RECORD_PAGE_COUNT = "update content_items set page_count = %s where id = %s and page_count is distinct from %s"


def ocr(context: JobContext, subdomain: str, run_id: int, stage: str, content_item_id: int) -> dict[str, Any]:
    """Read a document: every page accounted for in its manifest, or the reason why not."""
    connector = context.app.connector
    assert isinstance(connector, ClerkConnector)
    with connector.connection() as connection:
        document = document_by_id(connection, content_item_id)
        site = read_site(connection, document.subdomain)
    require_fetched(document)
    settings = connector.settings
    options = options_from(settings, _languages(site))
    progress = _Progress(context, connector)
    storage = SiteStorage(settings.storage_dir, document.subdomain)
    manifest = process_document.process(storage, document, options, progress.report, progress.raise_if_cancelled)
    _hand_out(settings, storage, document, manifest)
    with connector.connection() as connection:
        connection.execute(_RECORD_PAGE_COUNT, [manifest.page_count, document.id, manifest.page_count])
    if manifest.note:
        logger.warning("%s %s: %s", document.meeting, document.date, manifest.note)
    logger.info("read %s pages", manifest.page_count)
    return {"pages": manifest.page_count, "failed": len(manifest.failed)}


def _hand_out(settings: Settings, storage: SiteStorage, document: Document, manifest: Manifest) -> None:
    """Plugins that serve files to readers get the PDF and its page images as soon as they are there."""
    files = [storage.pdf(document), *(storage.page_image(document, page.page) for page in manifest.pages)]
    plugins = manager.load(settings)
    for file in filter(Path.exists, files):
        arguments = {"file_path": file, "storage_path": file.relative_to(storage.root).as_posix()}
        for _ in plugins.call_each("upload_static_file", settings.plugin_time_limit, **arguments):
            pass


def options_from(settings: Settings, languages: str) -> Options:
    return Options(
        languages=languages,
        images=settings.keep_images,
        dpi=settings.ocr_dpi,
        memory=settings.ocr_memory_bytes,
        page_seconds=settings.ocr_page_seconds,
        wasted_seconds=settings.ocr_page_seconds,
        document_seconds=settings.ocr_page_seconds + 10,
        most_pages=settings.ocr_max_pages,
        failed_share=settings.ocr_failed_percent / 100,
    )


def _languages(site: SiteRow | None) -> str:
    """`{"languages": "eng+spa"}` in the site's extra."""
    try:
        wanted = (
            site.extra_values.get("languages", tesseract.DEFAULT_LANGUAGES) if site else tesseract.DEFAULT_LANGUAGES
        )
    except ValueError:  # an older system's extra: it is the fetcher's to complain
        wanted = tesseract.DEFAULT_LANGUAGES
    if not isinstance(wanted, str) or not tesseract.LANGUAGES.fullmatch(wanted):
        raise LanguageMissing(f"the site's languages are {str(wanted)[:60]!r}; write them as eng+spa")
    if missing := set(wanted.split("+")) - tesseract.installed_languages():
        names = ", ".join(sorted(missing))
        raise LanguageMissing(f"tesseract has no model for {names}; on Debian: apt install tesseract-ocr-{names}")
    return wanted


class _Progress:
    """Tells the ledger how far we are, and us whether to go on."""

    def __init__(self, context: JobContext, connector: ClerkConnector) -> None:
        self.context = context
        self.connector = connector

    def report(self, done: int, total: int) -> None:
        self.raise_if_cancelled()
        job = self.context.job
        assert job.id is not None
        try:
            with self.connector.connection() as connection:
                held = engine.report_progress(connection, job.id, job.attempts, done, total)
        except psycopg.Error as error:
            # A database that is away for a while does not undo pages; the worker renews the lease as soon as it can.
            if not is_transient(error):
                raise
            logger.warning("progress could not be reported: %s", error)
            return
        if not held:
            raise ClaimLost(f"job {job.id} is no longer ours")

    def raise_if_cancelled(self) -> None:
        if self.context.should_abort():
            raise exceptions.JobAborted


def register(app: App) -> None:
    assert isinstance(app.job_manager, ClerkJobManager)
    retry = StageRetry(app.job_manager, "ocr")
    app.task(name="clerk.ocr", queue="ocr", retry=retry, pass_context=True)(ocr)
