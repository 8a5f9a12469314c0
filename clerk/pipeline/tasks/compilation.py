"""The compilation stage: a unit per site. Page texts become meetings.db."""

from __future__ import annotations

import logging
from pathlib import Path

import procrastinate
from procrastinate import App

from clerk.archive import selection
from clerk.archive.atomic_build import BuildResult
from clerk.archive.carry_over import PublishedCopies
from clerk.archive.compile import compile_site
from clerk.documents.storage import SiteStorage
from clerk.pipeline.job_context import JobContext
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.retry import StageRetry
from clerk.plugins import manager
from clerk.publish import publications
from clerk.publish.versions import DATABASE, SiteVersions

logger = logging.getLogger(__name__)


def compilation(
    context: procrastinate.JobContext, subdomain: str, run_id: int, stage: str, content_item_id: int
) -> dict[str, object]:
    """Bring meetings.db up to date with the page texts, and with what is known of people and votes so far."""
    claim = JobContext(context)
    plugins = manager.load(claim.settings)
    for _ in plugins.call_each("pre_compilation", claim.settings.plugin_time_limit, subdomain=subdomain, run_id=run_id):
        pass
    built = build(claim, plugins, subdomain, run_id, hooks_always=True)
    with claim.connection() as connection:
        publications.record_pages(connection, subdomain, run_id, built.pages)
    logger.info("compiled %s pages%s", built.pages, "" if built.changed else ", as before")
    return {"pages": built.pages, "changed": built.changed, "content": built.content_hash}


def build(
    claim: JobContext, plugins: manager.Plugins, subdomain: str, run_id: int, *, hooks_always: bool
) -> BuildResult:
    """The post_compilation hooks see the draft: what they add comes into place with the rest, or not at all."""
    storage = SiteStorage(claim.settings.storage_dir, subdomain)
    with claim.connection() as connection:
        shown = selection.select(storage, selection.candidates(connection, subdomain))
        is_published = publications.is_published(connection, subdomain)
    versions = SiteVersions(claim.settings.publish_dir, subdomain).versions()
    published = PublishedCopies(tuple(version.path / DATABASE for version in reversed(versions)), is_published)

    def finish(draft: Path, fresh: bool) -> None:
        if fresh or hooks_always:
            arguments = {"subdomain": subdomain, "database_path": draft, "run_id": run_id}
            for _ in plugins.call_each("post_compilation", claim.settings.plugin_time_limit, **arguments):
                pass

    return compile_site(storage, shown, finish, before_rename=claim.require, published=published)


def register(app: App) -> None:
    assert isinstance(app.job_manager, ClerkJobManager)
    retry = StageRetry(app.job_manager, "compilation")
    app.task(name="clerk.compilation", queue="compilation", retry=retry, pass_context=True)(compilation)
