"""`clerk why`."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.output import json_option, print_json, wrapped
from clerk.pg.connection import connect, reading
from clerk.pg.sites import site_unknown
from clerk.pg.sqlfiles import default_folder
from clerk.pg.verify import require_known_migrations
from clerk.why.answer import explain
from clerk.why.facts import read_facts


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
        with reading(connection):
            facts = read_facts(connection, site)
            if facts is None:
                raise site_unknown(connection, site)
    answer = explain(facts)
    if as_json:
        print_json(answer.as_dict())
        return
    for line in wrapped(f"{answer.site}: {answer.sentence}."):
        click.echo(line)
    if answer.remedy:
        click.echo(f"→ {answer.remedy}")
    for line in answer.evidence:
        click.echo(f"  {line}")
