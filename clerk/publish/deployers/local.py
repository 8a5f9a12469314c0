"""Publishes to a local folder, CLERK_PUBLISH_DIR, with several versions of which one is current."""

from __future__ import annotations

from collections.abc import Callable

from clerk import config
from clerk.documents.storage import SiteStorage
from clerk.plugins.hookspecs import hookimpl
from clerk.publish.versions import SiteVersions


@hookimpl
def deploy_municipality(subdomain: str, check_claim: Callable[[], None]) -> str:
    settings = config.load()
    database = SiteStorage(settings.storage_dir, subdomain).database
    version = SiteVersions(settings.publish_dir, subdomain).publish(
        database, settings.keep_versions, before_switch=check_claim
    )
    return str(version.path)
