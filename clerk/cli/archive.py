"""What an operator does with finished archives: one database of all of them, and back to an earlier version."""

from __future__ import annotations

from pathlib import Path

import click

from clerk import config
from clerk.archive.build_all import build_all as build_all_sites
from clerk.cli.output import dry_run_option, json_option, print_json, table
from clerk.cli.progress import Progress, quiet_option
from clerk.db.audit import log_action, set_actor, whoami
from clerk.db.connection import connect
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.db.sites import read_site, read_sites
from clerk.errors import EXIT_FAILURE, SiteNotFound
from clerk.publish import publications
from clerk.publish.versions import SiteVersions, Version


@click.command("build-all")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Default: STORAGE_DIR/_all/meetings.db")
@quiet_option
@dry_run_option
@json_option
def build_all(output: Path | None, quiet: bool, dry_run: bool, as_json: bool) -> None:
    """Build one database of all sites, with the columns subdomain and municipality.

    A site whose archive is damaged is left out and named; the exit code is 1 then.

    \b
    Examples:
      clerk build-all
      clerk build-all --output /srv/all.db --json
    """
    settings = config.load()
    output = output or settings.storage_dir / "_all" / "meetings.db"
    with connect(settings) as connection:
        require_known_schema(connection, default_folder())
        sites = [(site.subdomain, site.name or site.subdomain) for site in read_sites(connection)]
    if dry_run:
        there = [name for name, _ in sites if (settings.storage_dir / name / "meetings.db").is_file()]
        if as_json:
            print_json({"output": output, "sites": there})
        else:
            click.echo(f"(dry run, nothing was done) {len(there)} of {len(sites)} sites would go into {output}")
        return
    with Progress(quiet) as progress:
        collected = build_all_sites(settings.storage_dir, sites, output, progress.counting("sites"))
    assert collected.built is not None
    if as_json:
        print_json(
            {
                "output": output,
                "pages": collected.built.pages,
                "content_hash": collected.built.content_hash,
                "sites": collected.sites,
                "without_archive": collected.without_archive,
                "damaged": collected.damaged,
            }
        )
    else:
        click.echo(f"{output}: {collected.built.pages} pages of {len(collected.sites)} sites")
        for site, problem in collected.damaged.items():
            click.echo(f"  left out {site}: {problem}; rebuild it with `clerk rewind {site} --to compilation`")
    if collected.damaged:
        click.get_current_context().exit(EXIT_FAILURE)


@click.command()
@click.argument("site")
@click.option("--to", "name", metavar="VERSION", help="Default: the one before the current one.")
@click.option("--list", "only_list", is_flag=True, help="Show the versions there are, and do nothing.")
@dry_run_option
@json_option
def rollback(site: str, name: str | None, only_list: bool, dry_run: bool, as_json: bool) -> None:
    """Publish an earlier version of a site again. It stays until there is new content.

    For what the deployer `local` published; other deployers keep versions of their own, or none.

    \b
    Examples:
      clerk rollback springfield
      clerk rollback springfield --list
      clerk rollback springfield --to 20250102T030405000000Z-0123456789ab
    """
    settings = config.load()
    with connect(settings) as connection:
        require_known_schema(connection, default_folder())
        if read_site(connection, site) is None:
            raise SiteNotFound(f"there is no site {site}")
        published = SiteVersions(settings.publish_dir, site)
        if only_list:
            _show(published, as_json)
            return
        current = published.current
        target = published.get(name) if name else published.previous()
        if not dry_run:
            published.switch_to(target)
            newer = [version.content_hash for version in published.versions() if version.name > target.name]
            by = f"rolled back by {whoami()}"
            set_actor(connection, "cli")
            with connection.transaction():
                publications.record_rollback(connection, site, target.content_hash, newer, by)
                log_action(connection, "rollback", site, **{"from": current and current.name, "to": target.name})
    if as_json:
        print_json(
            {"site": site, "from": current and current.name, "to": target.name, "content_hash": target.content_hash}
        )
    else:
        done = f"{site}: back to {target.name} ({target.pages} pages, published {target.published_at})"
        click.echo(f"(dry run, nothing was done) {done}" if dry_run else done)


def _show(published: SiteVersions, as_json: bool) -> None:
    current, versions = published.current, published.versions()

    def is_current(version: Version) -> bool:
        return current is not None and version.name == current.name

    if as_json:
        print_json(
            [
                {
                    "version": version.name,
                    "pages": version.pages,
                    "published_at": version.published_at,
                    "content_hash": version.content_hash,
                    "current": is_current(version),
                }
                for version in versions
            ]
        )
    elif not versions:
        click.echo(f"{published.subdomain}: nothing is published under {published.folder}")
    else:
        header = ("", "version", "pages", "published")
        rows = [("*" if is_current(one) else "", one.name, str(one.pages), one.published_at) for one in versions]
        table([header, *rows])
