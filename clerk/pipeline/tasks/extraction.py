"""The extraction stage: a unit per document. People, organisations, places and votes, kept beside the texts."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import procrastinate
import psycopg
from procrastinate import App

from clerk.db.sites import read_site
from clerk.documents import manifest
from clerk.documents.repository import document_by_id
from clerk.documents.storage import SiteStorage
from clerk.errors import InvalidExtractorOutput, TextsMissing
from clerk.extraction import cache
from clerk.extraction.schema import validate
from clerk.pipeline.job_context import JobContext
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.retry import StageRetry
from clerk.plugins import manager
from clerk.plugins.isolation import call_with_timeout

logger = logging.getLogger(__name__)


def extraction(context: procrastinate.JobContext, subdomain: str, run_id: int, stage: str, content_item_id: int) -> str:
    """Find who and what stands in a document. The same text and extractor as before is not extracted again."""
    claim = JobContext(context)
    storage = SiteStorage(claim.settings.storage_dir, subdomain)
    with claim.connection() as connection:
        document = document_by_id(connection, content_item_id)
        label = _label(claim, connection, subdomain)
    try:
        texts = manifest.page_texts(storage, document)
    except manifest.ManifestUnreadable as error:
        raise TextsMissing(str(error)) from error
    if not texts and manifest.load(storage.manifest(document)) is None:
        raise TextsMissing(f"document {content_item_id} has no manifest under {storage.texts(document)}")
    plugin, extractor = manager.load(claim.settings).resolve("extractor", label)
    version, path = getattr(extractor, "version", None), storage.extracted(document)
    if not isinstance(version, str) or not callable(getattr(extractor, "extract", None)):
        raise InvalidExtractorOutput(
            f"plugin {plugin} offers as extractor {label} something without version and extract"
        )
    known, text_hash = cache.load(path), cache.text_hash(texts)
    if known is not None and (known.extractor, known.version, known.text_sha256) == (label, version, text_hash):
        return "cached"
    found = call_with_timeout(
        plugin,
        f"the extraction of document {content_item_id}",
        lambda: extractor.extract(texts),
        timeout=claim.settings.plugin_time_limit,
        while_waiting=claim.raise_if_cancelled,
    )
    pages = validate(label, found, [number for number, _ in texts])
    claim.require(len(texts), len(texts))
    cache.save(path, cache.CachedFindings(label, version, text_hash, pages))
    return "extracted"


def _label(claim: JobContext, connection: psycopg.Connection[Any], subdomain: str) -> str:
    site = read_site(connection, subdomain)
    with contextlib.suppress(ValueError):
        if site is not None and isinstance(wanted := site.extra_values.get("extractor"), str):
            return wanted
    return claim.settings.extractor


def register(app: App) -> None:
    assert isinstance(app.job_manager, ClerkJobManager)
    retry = StageRetry(app.job_manager, "extraction")
    app.task(name="clerk.extraction", queue="extraction", retry=retry, pass_context=True)(extraction)
