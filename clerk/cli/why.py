"""`clerk why`."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.output import json_option, print_json, wrap
from clerk.db.connection import connect, read_only_snapshot
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_migrations
from clerk.db.sites import site_not_found
from clerk.monitoring.explain import explain
from clerk.monitoring.site_state import read_site_state


@click.command()
@click.argument("site")
@json_option
def why(site: str, as_json: bool) -> None:
    """Say in one sentence why a site is where it is, and show the evidence.

    \b
    Examples:
      clerk why springfield
      clerk why springfield --json
    """
    with connect(config.load()) as connection:
        require_known_migrations(connection, default_folder())
        with read_only_snapshot(connection):
            facts = read_site_state(connection, site)
            if facts is None:
                raise site_not_found(connection, site)
    answer = explain(facts)
    if as_json:
        print_json(answer.as_dict())
        return
    for line in wrap(f"{answer.site}: {answer.sentence}."):
        click.echo(line)
    if answer.remedy:
        click.echo(f"→ {answer.remedy}")
    for line in answer.evidence:
        click.echo(f"  {line}")
