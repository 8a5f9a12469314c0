"""`clerk config`."""

from __future__ import annotations

import click

from clerk import config as configuration
from clerk.cli.output import json_option, print_json, show, table


@click.command()
@json_option
def config(as_json: bool) -> None:
    """Show every setting, its value and its origin. Passwords are redacted.

    \b
    Examples:
      clerk config
      CLERK_HOME=/var/lib/clerk clerk config --json
    """
    settings = configuration.load()
    rows = [
        (setting.name, setting.show(getattr(settings, setting.field)), settings.origins[setting.name])
        for setting in configuration.SETTINGS
    ]
    if as_json:
        print_json([{"name": name, "value": value, "origin": origin} for name, value, origin in rows])
    else:
        cells = [(name, value or "(embedded)", origin) for name, value, origin in rows]
        show(table(cells, ("setting", "value", "from")))
