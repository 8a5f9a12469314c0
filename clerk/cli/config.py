"""`clerk config`."""

from __future__ import annotations

import click

from clerk import config as configuration
from clerk.cli.output import info, json_option, print_json, show, table
from clerk.ocr import restrictions


@click.command()
@json_option
def config(as_json: bool) -> None:
    """Show every setting, its value and its origin. Passwords are redacted.

    The last line is not a setting: it names what this machine's kernel offers to restrict processes that read PDFs.

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
    rows.append(("sandbox", restrictions.describe(), "kernel"))
    if as_json:
        print_json([{"name": name, "value": value, "origin": origin} for name, value, origin in rows])
    else:
        cells = [(name, value or "(embedded)", origin) for name, value, origin in rows]
        show(table(cells, ("setting", "value", "from")))
        if (problem := restrictions.find_problem()) is not None:
            info(f"Limitation: {problem}.")
        if settings.robots == "ignore":
            info("Warning: CLERK_ROBOTS=ignore: fetchers request what a robots.txt disallows, and ignore Crawl-delay.")
        if settings.contact is None:
            info("Hint: set CLERK_CONTACT to your mail address or URL, so that publishers can reach you.")
