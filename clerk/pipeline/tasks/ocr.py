"""The OCR stage: one unit per document. Its errors are in `clerk.errors`."""

from __future__ import annotations

import logging
import time
from typing import Any

from clerk.config import Settings
from clerk.db.sites import SiteRow, read_site
from clerk.documents.manifest import Manifest
from clerk.documents.repository import document_by_id, require_fetched
from clerk.documents.storage import Document, SiteStorage, local_copy, relative_name
from clerk.errors import LanguageMissing
from clerk.ocr import process_document, tesseract
from clerk.ocr.engines import find_engine
from clerk.ocr.ocr_engine import EngineReference, OcrEngine
from clerk.ocr.process_document import Options
from clerk.pipeline.job_context import JobContext
from clerk.plugins import manager

logger = logging.getLogger(__name__)

_FORCE_OCR = "select force_ocr from pipeline_runs where run_id = %s"
_PROGRESS_INTERVAL = 2.0
_RECORD_PAGE_COUNT = "update content_items set page_count = %s where id = %s and page_count is distinct from %s"


def ocr(job: JobContext) -> dict[str, Any]:
    """Write a document's page texts and its manifest, which accounts for every page."""
    with job.connection() as connection:
        document = document_by_id(connection, job.content_item_id)
        site = read_site(connection, document.subdomain)
        run = connection.execute(_FORCE_OCR, [job.run_id]).fetchone()
    require_fetched(document)
    engine = find_engine(job.settings)
    forced_by_run = job.run_id if run and run[0] else None
    options = _options(job.settings, engine, _languages(site, engine), forced_by_run)
    storage = SiteStorage(job.settings.storage_dir, document.subdomain)
    progress = _TimedProgress(job.report_progress)
    manifest = process_document.process(storage, document, options, progress, job.raise_if_cancelled)
    _upload_files(job.settings, storage, document, manifest)
    with job.connection() as connection:
        connection.execute(_RECORD_PAGE_COUNT, [manifest.page_count, document.id, manifest.page_count])
    if manifest.note:
        logger.warning("%s %s: %s", document.meeting, document.date, manifest.note)
    logger.info("processed %s pages", manifest.page_count)
    return {"pages": manifest.page_count, "failed": len(manifest.failed)}


class _TimedProgress:
    """Passes progress on at most every two seconds: each report is a transaction. Most documents take less."""

    def __init__(self, report: process_document.Report) -> None:
        self.report = report
        self.next_at = time.monotonic() + _PROGRESS_INTERVAL

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() >= self.next_at:
            self.report(done, total)
            self.next_at = time.monotonic() + _PROGRESS_INTERVAL


def _upload_files(settings: Settings, storage: SiteStorage, document: Document, manifest: Manifest) -> None:
    """Pass the PDF and its page images to the plugins that publish files."""
    plugins = manager.load(settings)
    if next(plugins.implementations("upload_static_file", file_path=None, storage_path=None), None) is None:
        return
    storage = storage.snapshot(document)
    files = [storage.pdf(document), *(storage.page_image(document, page.page) for page in manifest.pages)]
    for file in files:
        if not file.is_file():
            continue
        with local_copy(file) as local_file:
            arguments = {"file_path": local_file, "storage_path": relative_name(file, storage.root)}
            for _ in plugins.call_each("upload_static_file", settings.plugin_time_limit, **arguments):
                pass


def _options(settings: Settings, engine: type[OcrEngine], languages: str, forced_by_run: int | None) -> Options:
    return Options(
        engine=EngineReference.of(engine),
        forced_by_run=forced_by_run,
        languages=languages,
        images=settings.keep_images,
        dpi=settings.ocr_dpi,
        memory=settings.ocr_memory_bytes,
        page_seconds=settings.ocr_page_seconds,
        failed_seconds=settings.ocr_page_seconds,
        document_seconds=settings.ocr_page_seconds + 10,
        max_pages=settings.ocr_max_pages,
        max_failed_share=settings.ocr_failed_percent / 100,
    )


def _languages(site: SiteRow | None, engine: type[OcrEngine]) -> str:
    """`{"languages": "eng+spa"}` in the site's extra."""
    languages: object = tesseract.DEFAULT_LANGUAGES
    try:
        if site is not None:
            languages = site.extra_values.get("languages", languages)
    except ValueError:
        pass  # The fetch stage reports an extra that is not JSON. Sites of legacy clerk may have one.
    if not isinstance(languages, str) or not tesseract.LANGUAGES.fullmatch(languages):
        raise LanguageMissing(f"the site's languages are {str(languages)[:60]!r}; write them as eng+spa")
    if missing := engine.missing_languages(languages):
        packages = " ".join(f"tesseract-ocr-{language}" for language in sorted(missing))
        names = ", ".join(sorted(missing))
        raise LanguageMissing(f"there is no model for {names}; for tesseract on Debian: apt install {packages}")
    return languages
