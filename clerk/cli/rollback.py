"""`clerk rollback`."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.connection import open_pipeline
from clerk.cli.output import dry_run_option, dry_run_prefix, info, json_option, print_json, show, table
from clerk.db.audit import log_action, whoami
from clerk.db.sites import require_site
from clerk.errors import ClerkError
from clerk.humanize import pluralize
from clerk.publish import publications
from clerk.publish.published_search import update_index
from clerk.publish.versions import SiteVersions

_INDEX_TIMEOUT = 60.0
"""Seconds to wait for a deploy that updates the search index."""


@click.command()
@click.argument("site")
@click.option("--to", "name", metavar="VERSION", help="Default: the version before the current one.")
@click.option("--list", "only_list", is_flag=True, help="List the versions, and change nothing.")
@dry_run_option
@json_option
def rollback(site: str, name: str | None, only_list: bool, dry_run: bool, as_json: bool) -> None:
    """Publish an earlier version of a site again. It stays published until there is new content.

    Works with the deployer `local`, which keeps earlier versions.

    \b
    Examples:
      clerk rollback springfield
      clerk rollback springfield --list
      clerk rollback springfield --to 20250102T030405000000Z-0123456789ab
    """
    settings = config.load()
    with open_pipeline(settings) as connection:
        require_site(connection, site)
        published = SiteVersions(settings.publish_dir, site)
        if only_list:
            _list(published, as_json)
            return
        current = published.current
        target = published.get(name) if name else published.previous()
        if not dry_run:
            published.switch_to(target)
            newer = [version.content_hash for version in published.versions() if version.name > target.name]
            with connection.transaction():
                by = f"rolled back by {whoami()}"
                publications.record_rollback(connection, site, target.content_hash, newer, by)
                log_action(connection, "rollback", site, **{"from": current and current.name, "to": target.name})
            try:
                update_index(settings.publish_dir, [site], _INDEX_TIMEOUT)
            except (ClerkError, OSError, ValueError) as error:  # tantivy raises ValueError
                info(f"The search index was not updated ({error}); until then, {site} is searched in its archive.")
    if as_json:
        versions = {"from": current and current.name, "to": target.name, "content_hash": target.content_hash}
        print_json({"site": site, **versions, "dry_run": dry_run})
    else:
        version = f"{target.name} ({pluralize(target.pages, 'page')}, published {target.published_at})"
        click.echo(dry_run_prefix(dry_run, f"{site}: rolled back to {version}"))


def _list(published: SiteVersions, as_json: bool) -> None:
    current, versions = published.current, published.versions()
    rows = [
        {
            "version": version.name,
            "pages": version.pages,
            "published_at": version.published_at,
            "content_hash": version.content_hash,
            "current": current is not None and version.name == current.name,
        }
        for version in versions
    ]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo(f"{published.subdomain}: nothing has been published yet under {published.folder}")
    else:
        cells = [
            ("*" if row["current"] else "", *(str(row[column]) for column in ("version", "pages", "published_at")))
            for row in rows
        ]
        show(table(cells, ("", "version", "pages", "published"), right={2}))
