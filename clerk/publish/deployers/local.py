"""Publishes into a folder of this machine, CLERK_PUBLISH_DIR: versions side by side, one of them current."""

from __future__ import annotations

from clerk import config
from clerk.documents.storage import SiteStorage
from clerk.plugins.hookspecs import hookimpl
from clerk.publish.versions import SiteVersions


@hookimpl
def deploy_municipality(subdomain: str) -> str:
    settings = config.load()
    database = SiteStorage(settings.storage_dir, subdomain).database
    version = SiteVersions(settings.publish_dir, subdomain).publish(database, settings.keep_versions)
    return str(version.path)
