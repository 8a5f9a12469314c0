"""The compilation stage: one unit per site. Builds meetings.db from page texts."""

from __future__ import annotations

import logging
from pathlib import Path

from clerk.archive import selection
from clerk.archive.atomic_build import BuildResult
from clerk.archive.carry_over import PublishedCopies
from clerk.archive.compile import compile_site
from clerk.documents.storage import SiteStorage
from clerk.pipeline.job_context import JobContext
from clerk.plugins import manager
from clerk.publish import publications
from clerk.publish.versions import SiteVersions

logger = logging.getLogger(__name__)


def compilation(job: JobContext) -> dict[str, object]:
    """Update meetings.db with the page texts, and with the entities and votes extracted so far."""
    plugins = manager.load(job.settings)
    arguments = {"subdomain": job.subdomain, "run_id": job.run_id}
    for _ in plugins.call_each("pre_compilation", job.settings.plugin_time_limit, **arguments):
        pass
    built = build(job, plugins, hooks_always=True)
    with job.connection() as connection:
        publications.record_pages(connection, job.subdomain, job.run_id, built.pages)
    logger.info("compiled %s pages%s", built.pages, "" if built.changed else ", unchanged")
    return {"pages": built.pages, "changed": built.changed, "content": built.content_hash}


def build(job: JobContext, plugins: manager.Plugins, *, hooks_always: bool) -> BuildResult:
    """Build meetings.db. The post_compilation hooks change the draft, so their changes are installed with it or not at
    all. Unless `hooks_always`, they run only for a new draft."""
    storage = SiteStorage(job.settings.storage_dir, job.subdomain).snapshot()
    with job.connection() as connection:
        documents = selection.select(storage, selection.read_candidates(connection, job.subdomain))
        is_published = publications.is_published(connection, job.subdomain)
    versions = SiteVersions(job.settings.publish_dir, job.subdomain).versions()
    copies = PublishedCopies(tuple(version.database for version in reversed(versions)), is_published)

    def run_hooks(draft: Path, is_new: bool) -> None:
        if is_new or hooks_always:
            arguments = {"subdomain": job.subdomain, "database_path": draft, "run_id": job.run_id}
            for _ in plugins.call_each("post_compilation", job.settings.plugin_time_limit, **arguments):
                pass

    return compile_site(storage, documents, run_hooks, before_rename=job.heartbeat, published=copies)
