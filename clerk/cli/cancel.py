"""`clerk cancel`."""

from __future__ import annotations

import click

from clerk.cli.connection import open_pipeline
from clerk.cli.output import dry_run_option, dry_run_prefix, json_option, print_json
from clerk.db.audit import whoami
from clerk.db.sites import require_site
from clerk.pipeline import engine


@click.command()
@click.argument("site")
@click.option("--reason", default="", help="The reason, which is recorded with the run.")
@dry_run_option
@json_option
def cancel(site: str, reason: str, dry_run: bool, as_json: bool) -> None:
    """End the active run of a site. Processed documents are kept; the next run takes over the open ones.

    \b
    Example:
      clerk cancel springfield --reason "the source is being moved"
    """
    with open_pipeline() as connection, connection.transaction(force_rollback=dry_run):
        require_site(connection, site)
        run_id = engine.cancel_run(connection, site, f"cancelled by {whoami()}{f': {reason}' if reason else ''}")
    if as_json:
        print_json({"run_id": run_id, "dry_run": dry_run})
    elif run_id is None:
        click.echo(f"{site}: no run is active.")
    else:
        click.echo(dry_run_prefix(dry_run, f"{site}: run {run_id} cancelled"))
