"""The deploy stage: one unit per site. Merges entities and votes into meetings.db and publishes it.

Every step is recorded: a retry continues after the last recorded step, and a deployer does not receive content that it
has already published.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import psycopg
from procrastinate import exceptions

from clerk.archive.atomic_build import BuildResult
from clerk.db.sites import read_site
from clerk.documents.storage import SiteStorage
from clerk.errors import ClaimLost, ClerkError, DeployerUnknown, SiteConfigError
from clerk.pipeline.job_context import JobContext
from clerk.pipeline.tasks.compilation import build
from clerk.plugins import manager
from clerk.plugins.isolation import call_with_timeout
from clerk.publish import publications, published_search
from clerk.publish.deployer_calls import BUILT_IN, deployer_calls
from clerk.publish.publications import Publication
from clerk.publish.versions import SiteVersions
from clerk.saved_searches.jobs import request_matching

logger = logging.getLogger(__name__)

LOCAL, NONE = "local", "none"
_INDEX_TIMEOUT = 20.0
"""Seconds to wait for another deploy that updates the search index."""
_COMMAND_MARGIN = 60.0
"""Seconds that a deployer's thread may outlast the time limit of its command."""


def deploy(job: JobContext) -> str:
    """Publish the site's archive if it differs from the published one."""
    plugins = manager.load(job.settings)
    deployers = _select_deployers(job, plugins)
    built = build(job, plugins, hooks_always=False)
    with job.connection() as connection:
        publications.record_pages(connection, job.subdomain, job.run_id, built.pages)
        due = [name for name in deployers if not _is_published(job, connection, name, built)]
    if due:
        # Also before the row of the publication: it must not be newer than that of the worker that has the job now.
        job.heartbeat(0, len(due))
    with job.connection() as connection:
        if due:
            last_local = publications.last_deployed(connection, job.subdomain, LOCAL)
            lost_copy = last_local == built.content_hash and LOCAL in due
            publication = publications.begin(connection, job.subdomain, job.run_id, built, lost_copy=lost_copy)
        elif (pending := publications.pending_post_deploy(connection, job.subdomain, built.content_hash)) is not None:
            publication = pending
        else:
            logger.info("nothing to publish: the content is unchanged")
            return "unchanged"
    for position, name in enumerate(due):
        if ("deploy", name) not in publication.done:
            job.heartbeat(position, len(due))
            limit = max(job.settings.plugin_time_limit, job.settings.deploy_time_limit + _COMMAND_MARGIN)
            result = call_with_timeout(
                name,
                "deploy_municipality",
                deployers[name],
                timeout=limit,
                while_waiting=job.raise_if_cancelled,
                expected=(ClaimLost, exceptions.JobAborted),
            )
            with job.connection() as connection:
                publications.record_step(
                    connection, publication, "deploy", name, None if result is None else str(result)
                )
    with job.connection() as connection, connection.transaction():
        publications.record_deployed(connection, publication)
        request_matching(connection, publication.id, job.subdomain)
    if LOCAL in deployers:
        _update_search_index(job)
    _call_post_deploy(job, plugins, publication)
    return "published"


def _select_deployers(job: JobContext, plugins: manager.Plugins) -> dict[str, Callable[[], Any]]:
    """Deployers by name. The default is `local` and every plugin that is not clerk's own."""
    storage = SiteStorage(job.settings.storage_dir, job.subdomain)
    available = {
        name.removeprefix(BUILT_IN): call
        for name, call in deployer_calls(plugins, storage, check_claim=job.heartbeat).items()
    }
    built_in = {loaded.name.removeprefix(BUILT_IN) for loaded in plugins.loaded if loaded.name.startswith(BUILT_IN)}
    with job.connection() as connection:
        site = read_site(connection, job.subdomain)
    try:
        names = site.extra_values.get("deploy") if site is not None else None
    except ValueError as error:
        raise SiteConfigError(f"the extra of {job.subdomain} is not a JSON object ({error})") from error
    if names is None:
        names = [LOCAL, *(name for name in available if name not in built_in)]
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SiteConfigError(f'the extra of {job.subdomain} has "deploy": {names!r}, not a list of names')
    if missing := [name for name in names if name not in available and name != NONE]:
        known = ", ".join([*available, NONE])
        raise DeployerUnknown(f"the extra of {job.subdomain} names the deployer {missing[0]!r}; there are {known}")
    return {name: available[name] for name in names if name != NONE}


def _is_published(job: JobContext, connection: psycopg.Connection[Any], name: str, built: BuildResult) -> bool:
    if publications.last_deployed(connection, job.subdomain, name) != built.content_hash:
        return False
    if name != LOCAL:
        return True
    # The folder may have been emptied or restored from a backup. A version that was rolled back stays rolled back.
    expected = None if publications.is_rolled_back(connection, job.subdomain, name) else built.content_hash
    return SiteVersions(job.settings.publish_dir, job.subdomain).find_problem(expected) is None


def _update_search_index(job: JobContext) -> None:
    """Index the published version, if there is a search index. A failure does not fail the deploy: until the index is
    updated, the site is searched in its archive, and `clerk search-index status` names it."""
    try:
        result = published_search.update_index(job.settings.publish_dir, [job.subdomain], _INDEX_TIMEOUT)
    except (ClerkError, OSError, ValueError) as error:  # tantivy raises ValueError
        logger.warning("the search index was not updated: %s", error)
        return
    for problem in result.broken.values() if result is not None else ():
        logger.warning("the search index was not updated: %s", problem)


def _call_post_deploy(job: JobContext, plugins: manager.Plugins, publication: Publication) -> None:
    with job.connection() as connection:
        row = read_site(connection, job.subdomain)
    site = row.as_dict() if row is not None else {"subdomain": job.subdomain}
    for name, call in plugins.implementations("post_deploy", site=site):
        if ("post_deploy", name) not in publication.done:
            job.heartbeat()
            limit = job.settings.plugin_time_limit
            call_with_timeout(name, "post_deploy", call, timeout=limit, while_waiting=job.raise_if_cancelled)
            with job.connection() as connection:
                publications.record_step(connection, publication, "post_deploy", name, None)
    with job.connection() as connection:
        publications.record_announced(connection, publication)
