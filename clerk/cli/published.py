"""Options of commands that read published archives: `--site`, which needs no database for it, and days."""

from __future__ import annotations

import logging
from datetime import date
from typing import Any

import click
import psycopg

from clerk import config
from clerk.cli.connection import open_pipeline
from clerk.db.embedded.postgres import EmbeddedPostgres
from clerk.db.sites import require_site
from clerk.documents.sanitize import is_subdomain
from clerk.errors import ClerkError, SiteNotFound
from clerk.publish.versions import current_versions
from clerk.suggestions import require_known

logger = logging.getLogger(__name__)


class Day(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no type parameter
    """A day of the calendar."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        try:
            return value if isinstance(value, date) else date.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{str(value)[:40]!r} is not a date: write it as 2024-03-05.", param, ctx)


def check_site_option(settings: config.Settings, site: str | None) -> None:
    """Raise SiteNotFound or UnknownName if there is no such site.

    The database is asked only about a site of which nothing is published. If it cannot be reached, the published sites
    are the known ones.
    """
    if site is None:
        return
    if not is_subdomain(site):
        raise click.BadParameter(f"{site} is not a valid subdomain", param_hint="--site")
    published = current_versions(settings.publish_dir) if settings.publish_dir.is_dir() else {}
    if site in published:
        return
    try:
        is_known = _is_in_database(settings, site)
    except SiteNotFound:
        raise
    except (ClerkError, psycopg.Error) as error:
        logger.info("only published sites are known: %s", error)
        is_known = False
    if not is_known and published:
        require_known("site", site, published, "`clerk search` without --site searches all")


def _is_in_database(settings: config.Settings, site: str) -> bool:
    """False: there is no database. Raises SiteNotFound."""
    if settings.database_url is None and not EmbeddedPostgres(settings.home).server.data.is_dir():
        return False
    with open_pipeline(settings, migrations_only=True) as connection:
        require_site(connection, site)
    return True
