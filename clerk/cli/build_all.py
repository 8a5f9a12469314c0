"""`clerk build-all`."""

from __future__ import annotations

from pathlib import Path

import click

from clerk import config
from clerk.archive import build_all as archive
from clerk.cli.connection import open_pipeline
from clerk.cli.output import dry_run_option, dry_run_prefix, json_option, print_json
from clerk.cli.progress_reporter import ProgressReporter, quiet_option
from clerk.db.sites import read_sites
from clerk.errors import EXIT_FAILURE
from clerk.humanize import pluralize
from clerk.object_storage.path import StoragePath


@click.command("build-all")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Default: STORAGE_DIR/_all/meetings.db")
@quiet_option
@dry_run_option
@json_option
def build_all(output: Path | None, quiet: bool, dry_run: bool, as_json: bool) -> None:
    """Build one database of all sites. It has the additional columns subdomain and municipality.

    A site whose archive is damaged is left out and reported, and the exit code is 1.

    \b
    Examples:
      clerk build-all
      clerk build-all --output /srv/all.db --json
    """
    settings = config.load()
    target: StoragePath = output or settings.storage_dir / "_all" / "meetings.db"
    with open_pipeline(settings) as connection:
        sites = [(site.subdomain, site.name or site.subdomain) for site in read_sites(connection)]
    if dry_run:
        built = [name for name, _ in sites if (settings.storage_dir / name / "meetings.db").is_file()]
        if as_json:
            print_json({"output": target, "sites": built})
        else:
            click.echo(
                dry_run_prefix(
                    dry_run, f"{len(built):,} of {pluralize(len(sites), 'site')} would be written to {target}"
                )
            )
        return
    with ProgressReporter(quiet) as progress:
        result = archive.build_all(settings.storage_dir, sites, target, progress.callback("sites"))
    assert result.built is not None
    if as_json:
        print_json(
            {
                "output": target,
                "pages": result.built.pages,
                "content_hash": result.built.content_hash,
                "sites": result.sites,
                "without_archive": result.without_archive,
                "damaged": result.damaged,
            }
        )
    else:
        click.echo(f"{target}: {pluralize(result.built.pages, 'page')} of {pluralize(len(result.sites), 'site')}")
        if not result.sites:
            click.echo("No site has an archive yet: its first run builds it. See `clerk status`.")
        for site, problem in result.damaged.items():
            click.echo(f"  left out {site}: {problem}; rebuild it with `clerk rewind {site} --to compilation`")
    if result.damaged:
        click.get_current_context().exit(EXIT_FAILURE)
