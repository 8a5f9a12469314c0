"""`clerk new`."""

from __future__ import annotations

import sys
from typing import Any

import click

from clerk import config
from clerk.cli.output import confirm, dry_run_option, json_option
from clerk.cli.site_add import add_settings, column_options, create_site, given_columns
from clerk.cli.source_options import SourceCommand, given_settings, infer_scraper
from clerk.plugins import manager
from clerk.sources.site_validation import check_subdomain

_QUESTIONS = {
    "name": "Name of the municipality",
    "state": "State, such as CA",
    "country": "Country, such as US",
    "kind": "Kind, such as city, county or school-board",
    "start_year": "First year to fetch",
    "lat": "Latitude in degrees",
    "lng": "Longitude in degrees",
    "scraper": "Fetcher, such as legistar or links (`clerk plugins` lists them)",
    "extra": "JSON for the fetcher (`clerk plugins --fetcher NAME` lists its keys)",
}


@click.command(cls=SourceCommand)
@click.argument("subdomain", required=False)
@column_options
@click.option("--yes", is_flag=True, help="Ask nothing: what is not given as an option stays empty.")
@click.option("--no-check", is_flag=True, help="Do not look at a folder, for one that only the workers have.")
@dry_run_option
@json_option
@click.pass_context
def new(
    ctx: click.Context,
    /,
    subdomain: str | None,
    yes: bool,
    no_check: bool,
    dry_run: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Add a site and start its first run. Asks for what is not given as an option.

    `clerk site add` asks for less, detects the system of a town (--url), shows what it would fetch, and leaves the
    first run to the workers.

    \b
    Examples:
      clerk new
      clerk new springfield --name Springfield --state IL --scraper legistar --client springfield --yes
    """
    settings = config.load()
    given = given_columns(values)
    if source := given_settings(ctx):
        given["scraper"] = given.get("scraper") or infer_scraper(source)
        given["extra"] = add_settings(
            manager.load(settings), given["scraper"], source, given.get("extra"), subdomain or "", no_check=no_check
        )
    if subdomain is None and yes:
        raise click.UsageError("Give a SUBDOMAIN, or leave --yes out.")
    try:
        if subdomain is None:
            subdomain = str(click.prompt("Subdomain, such as springfield", err=True))
        check_subdomain(subdomain)
        if not yes:
            given = {**given, **_ask(subdomain, given)}
            if not dry_run:
                confirm(f"Add {subdomain} and start its first run?", f"{subdomain} was not added", default=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.UsageError(
            "There is no terminal to ask on. Give a SUBDOMAIN, the columns as options, and --yes."
        ) from None
    create_site(settings, subdomain, given, dry_run, as_json, start=True)


def _ask(subdomain: str, given: dict[str, Any]) -> dict[str, str]:
    """The answers to the questions whose column is not given. An empty answer leaves the column empty."""
    answers = {
        column: click.prompt(
            question, default=subdomain if column == "name" else "", show_default=column == "name", err=True
        )
        for column, question in _QUESTIONS.items()
        if column not in given
    }
    return {column: answer for column, answer in answers.items() if answer}
