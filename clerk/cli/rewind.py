"""`clerk rewind`."""

from __future__ import annotations

import click

from clerk.cli.connection import open_pipeline
from clerk.cli.output import dry_run_option, dry_run_prefix, json_option, print_json
from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES


@click.command()
@click.argument("site")
@click.option("--to", "stage", type=click.Choice(STAGES), required=True, help="The first stage to repeat.")
@dry_run_option
@json_option
def rewind(site: str, stage: str, dry_run: bool, as_json: bool) -> None:
    """Repeat a stage and all stages after it. Applies to every document of the site. An active run is superseded.

    \b
    Example:
      clerk rewind springfield --to compilation
    """
    with open_pipeline() as connection, connection.transaction(force_rollback=dry_run):
        run_id = engine.rewind(connection, site, stage)
    if as_json:
        print_json({"run_id": run_id, "stage": stage})
    else:
        click.echo(dry_run_prefix(dry_run, f"{site}: run {run_id} starts with {stage}"))
