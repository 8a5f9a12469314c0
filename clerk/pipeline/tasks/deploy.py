"""The deploy stage: a unit per site. People and votes are merged into meetings.db, and the result is published.

What was done is written down step by step: a retry goes on where the last attempt ended, and content that a deployer
has published already is not given to it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import procrastinate
from procrastinate import App

from clerk.archive.atomic_build import BuildResult
from clerk.db.sites import read_site
from clerk.errors import DeployerUnknown, SiteConfigError
from clerk.pipeline.job_context import JobContext
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.retry import StageRetry
from clerk.pipeline.tasks.compilation import build
from clerk.plugins import manager
from clerk.plugins.isolation import call_with_timeout
from clerk.publish import publications
from clerk.publish.publications import Publication
from clerk.publish.versions import SiteVersions

logger = logging.getLogger(__name__)

LOCAL, NONE = "local", "none"
_BUILT_IN = "clerk.publish.deployers."
_MARGIN = 60.0
"""Seconds beyond the command's own limit before its thread is given up."""


def deploy(context: procrastinate.JobContext, subdomain: str, run_id: int, stage: str, content_item_id: int) -> str:
    """Publish the site's archive, if it differs from what is published."""
    claim = JobContext(context)
    plugins = manager.load(claim.settings)
    deployers = chosen(claim, plugins, subdomain)
    built = build(claim, plugins, subdomain, run_id, hooks_always=False)
    with claim.connection() as connection:
        publications.record_pages(connection, subdomain, run_id, built.pages)
        due = [name for name in deployers if not _is_published(claim, connection, subdomain, name, built)]
        if due:
            lost = publications.last_deployed(connection, subdomain, LOCAL) == built.content_hash and LOCAL in due
            publication = publications.begin(connection, subdomain, run_id, built, lost_copy=lost)
        elif (waiting := publications.pending_post_deploy(connection, subdomain, built.content_hash)) is not None:
            publication = waiting
        else:
            logger.info("nothing to publish: the content is as it was")
            return "unchanged"
    for place, name in enumerate(due):
        if ("deploy", name) not in publication.done:
            claim.require(place, len(due))
            limit = max(claim.settings.plugin_time_limit, claim.settings.deploy_time_limit + _MARGIN)
            result = call_with_timeout(
                name, "deploy_municipality", deployers[name], timeout=limit, while_waiting=claim.raise_if_cancelled
            )
            with claim.connection() as connection:
                publications.record_step(
                    connection, publication, "deploy", name, None if result is None else str(result)
                )
    with claim.connection() as connection:
        publications.record_deployed(connection, publication)
    _announce(claim, plugins, subdomain, publication)
    return "published"


def chosen(claim: JobContext, plugins: manager.Plugins, subdomain: str) -> dict[str, Callable[[], Any]]:
    """Deployers by name. Unless the site says otherwise: `local`, and every plugin that is not clerk's own."""
    there = {
        name.removeprefix(_BUILT_IN): call
        for name, call in plugins.implementations("deploy_municipality", subdomain=subdomain)
    }
    built_in = {loaded.name.removeprefix(_BUILT_IN) for loaded in plugins.loaded if loaded.name.startswith(_BUILT_IN)}
    with claim.connection() as connection:
        site = read_site(connection, subdomain)
    try:
        wanted = site.extra_values.get("deploy") if site is not None else None
    except ValueError as error:
        raise SiteConfigError(f"the extra of {subdomain} is not a JSON object ({error})") from error
    if wanted is None:
        wanted = [LOCAL, *(name for name in there if name not in built_in)]
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise SiteConfigError(f'the extra of {subdomain} has "deploy": {wanted!r}, not a list of names')
    if missing := [name for name in wanted if name not in there and name != NONE]:
        raise DeployerUnknown(f"{subdomain} is to be deployed by {missing[0]!r}; there are {', '.join([*there, NONE])}")
    return {name: there[name] for name in wanted if name != NONE}


def _is_published(claim: JobContext, connection: Any, subdomain: str, name: str, built: BuildResult) -> bool:
    if publications.last_deployed(connection, subdomain, name) != built.content_hash:
        return False
    if name != LOCAL:
        return True
    # Somebody may have emptied the folder, or brought back an older one; what was rolled back stays rolled back.
    wanted = None if publications.is_rolled_back(connection, subdomain, name) else built.content_hash
    return SiteVersions(claim.settings.publish_dir, subdomain).find_problem(wanted) is None


def _announce(claim: JobContext, plugins: manager.Plugins, subdomain: str, publication: Publication) -> None:
    with claim.connection() as connection:
        row = read_site(connection, subdomain)
    site = row.as_dict() if row is not None else {"subdomain": subdomain}
    for name, call in plugins.implementations("post_deploy", site=site):
        if ("post_deploy", name) not in publication.done:
            claim.require()
            call_with_timeout(
                name,
                "post_deploy",
                call,
                timeout=claim.settings.plugin_time_limit,
                while_waiting=claim.raise_if_cancelled,
            )
            with claim.connection() as connection:
                publications.record_step(connection, publication, "post_deploy", name, None)
    with claim.connection() as connection:
        publications.record_announced(connection, publication)


def register(app: App) -> None:
    assert isinstance(app.job_manager, ClerkJobManager)
    retry = StageRetry(app.job_manager, "deploy")
    app.task(name="clerk.deploy", queue="deploy", retry=retry, pass_context=True)(deploy)
