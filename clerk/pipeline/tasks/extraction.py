"""The extraction stage: one unit per document. Extracts people, organisations, places and votes from its texts."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import psycopg

from clerk.db.sites import read_site
from clerk.documents import manifest
from clerk.documents.repository import document_by_id
from clerk.documents.storage import SiteStorage
from clerk.errors import TextsMissing
from clerk.extraction import cache, code_versions
from clerk.extraction.schema import check_interface, validate
from clerk.pipeline.job_context import JobContext
from clerk.plugins import manager
from clerk.plugins.isolation import call_with_timeout

logger = logging.getLogger(__name__)


def extraction(job: JobContext) -> str:
    """Extract from a document, unless its text and the extractor's version are those of the last extraction."""
    with job.connection() as connection:
        document = document_by_id(connection, job.content_item_id)
        label = _extractor_label(job, connection)
    storage = SiteStorage(job.settings.storage_dir, job.subdomain).snapshot(document)
    storage.prefetch_texts([document])
    try:
        texts = manifest.page_texts(storage, document)
    except manifest.ManifestUnreadable as error:
        raise TextsMissing(str(error)) from error
    if not texts and manifest.load(storage.manifest(document)) is None:
        raise TextsMissing(f"document {document.id} has no manifest under {storage.texts(document)}")
    plugin, provided = manager.load(job.settings).resolve("extractor", label)
    extractor = check_interface(label, plugin, provided)
    version, path = extractor.version, storage.extracted(document)
    if (code := code_versions.code_hash(extractor)) is not None:
        with job.connection() as connection:
            code_versions.record_use(connection, label, version, plugin, code)
    cached, text_hash = cache.load(path), cache.text_hash(texts)
    if cached is not None and (cached.extractor, cached.version, cached.text_sha256) == (label, version, text_hash):
        return "cached"
    output = call_with_timeout(
        plugin,
        f"the extraction of document {document.id}",
        lambda: extractor.extract(texts),
        timeout=job.settings.plugin_time_limit,
        while_waiting=job.raise_if_cancelled,
    )
    pages = validate(label, output, [number for number, _ in texts])
    job.heartbeat(len(texts), len(texts))
    cache.save(path, cache.CachedFindings(label, version, text_hash, pages))
    return "extracted"


def _extractor_label(job: JobContext, connection: psycopg.Connection[Any]) -> str:
    """`extractor` in the site's extra, or CLERK_EXTRACTOR."""
    site = read_site(connection, job.subdomain)
    with contextlib.suppress(ValueError):
        if site is not None and isinstance(label := site.extra_values.get("extractor"), str):
            return label
    return job.settings.extractor
