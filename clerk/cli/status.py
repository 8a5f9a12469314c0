"""`clerk status`."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.output import json_option, print_json, table
from clerk.pg.connection import connect
from clerk.pg.overview import read_overview
from clerk.pg.sqlfiles import default_folder
from clerk.pg.verify import require_known_schema


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show sites by stage and what waits in the queues.

    \b
    Examples:
      clerk status
      clerk status --json
    """
    settings = config.load()
    with connect(settings) as connection:
        require_known_schema(connection, default_folder())
        overview = read_overview(connection)
    if as_json:
        print_json({"stages": overview.stages, "queues": overview.queues, "storage": settings.storage_dir})
        return
    sites = sum(overview.stages.values())
    click.echo(f"{sites} site{'' if sites == 1 else 's'}; storage in {settings.storage_dir}")
    if overview.stages:
        table([("stage", "sites"), *((stage, str(count)) for stage, count in overview.stages.items())])
    if overview.queues:
        table(
            [
                ("queue", "waiting", "scheduled", "running"),
                *(
                    (queue, str(jobs["waiting"]), str(jobs["scheduled"]), str(jobs["running"]))
                    for queue, jobs in overview.queues.items()
                ),
            ]
        )
    else:
        click.echo("No jobs are waiting or running.")
