"""`clerk legacy inspect`."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.output import json_option, print_json
from clerk.db.connection import connect
from clerk.errors import EXIT_UNKNOWN
from clerk.humanize import pluralize
from clerk.legacy.disk import require_folder
from clerk.legacy.inspect import LegacyInspection, inspect


@click.command("inspect")
@json_option
def inspect_command(as_json: bool) -> None:
    """Show the data of legacy clerk, and where they disagree.

    Reads the database, the disk and Redis (REDIS_URL). Changes nothing, and works before and after `clerk db up`. What
    cannot be read is reported, and the rest is shown. Exit code 3: Redis cannot be read.

    \b
    Examples:
      clerk legacy inspect
      REDIS_URL=redis://localhost:6379/0 clerk legacy inspect --json
    """
    settings = config.load()
    with connect(settings) as connection:
        inspection = inspect(connection, require_folder(settings), settings.redis_url)
    if as_json:
        print_json(inspection.as_dict())
    else:
        _print(inspection)
    if "problem" in (inspection.redis or {}):
        click.get_current_context().exit(EXIT_UNKNOWN)


def _print(inspection: LegacyInspection) -> None:
    database, disk, redis = inspection.database, inspection.disk, inspection.redis
    click.echo(f"database  {database['description']}; {database['sites']} sites, {database['stuck']} stuck")
    for source, stages in database["stuck_by"].items():
        if stages:
            click.echo(f"          by {source}: " + ", ".join(f"{count} in {stage}" for stage, count in stages.items()))
    states = ", ".join(f"{count} with {state}" for state, count in sorted(disk.states.items()))
    documents = pluralize(disk.documents, "document")
    click.echo(f"disk      {disk.root}: {pluralize(disk.sites, 'site')}, {documents} ({states or 'none'}),")
    click.echo(f"          {pluralize(disk.text_files, 'text file')}")
    if redis is None:
        click.echo("redis     not read: REDIS_URL is not set")
    elif problem := redis.get("problem"):
        click.echo(f"redis     not read: {problem}")
    else:
        click.echo(
            f"redis     {pluralize(len(redis['workers']), 'worker')} alive, {pluralize(len(redis['queues']), 'queue')}"
        )
        for queue, counts in redis["queues"].items():
            jobs = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
            click.echo(f"          {queue}: {jobs or 'empty'}")
        for problem in redis["problems"]:
            click.echo(f"          {problem}")
    click.echo(pluralize(len(inspection.disagreements), "disagreement") + (":" if inspection.disagreements else ""))
    for line in inspection.disagreements:
        click.echo(f"  {line}")
