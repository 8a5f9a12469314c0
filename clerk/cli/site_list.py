"""`clerk site list` and `export`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import click

from clerk import config
from clerk.cli.connection import open_if_any
from clerk.cli.names import NameChoice
from clerk.cli.output import info, json_option, print_json, show, table
from clerk.db.sites import EDITABLE, OUTCOMES, SiteRow, read_sites
from clerk.humanize import pluralize
from clerk.pipeline.engine import STAGES
from clerk.plugins import manager
from clerk.suggestions import require_known

_EXPORTED = ("subdomain", *EDITABLE)
_STAGES = (*STAGES, "completed")


def filter_options(command: Any) -> Any:
    """The options that select sites."""
    for option in (
        click.option("--outcome", type=NameChoice("outcome", OUTCOMES), help="Only sites whose last run ended so."),
        click.option("--stage", type=NameChoice("stage", _STAGES), help="Only sites in this stage."),
        click.option("--scraper", help="Only sites with this fetcher."),
        click.option("--state", help="Only sites of this state."),
    ):
        command = option(command)
    return command


def _read(scraper: str | None, **filters: str | None) -> list[SiteRow]:
    """The selected sites. A scraper that no site has must at least exist."""
    settings = config.load()
    with open_if_any(settings) as connection:
        sites = read_sites(connection, scraper, **filters) if connection else []
        if scraper is not None and not sites:
            used = {site.scraper for site in (read_sites(connection) if connection else []) if site.scraper}
            require_known("scraper", scraper, sorted({*used, *manager.load(settings).labels("fetcher_class")}))
    return sites


@click.command("list")
@filter_options
@json_option
def list_command(as_json: bool, **filters: str | None) -> None:
    """List the sites.

    \b
    Examples:
      clerk site list --outcome failed
      clerk site list --state CA --scraper legistar
      clerk site list --json
    """
    sites = _read(**filters)
    if as_json:
        print_json([row.as_dict() for row in sites])
    elif not sites:
        is_filtered = any(filters.values())
        click.echo("No site matches." if is_filtered else "No sites. Add one with `clerk site add`.")
    else:
        # What matters least comes last: a narrow terminal cuts it.
        columns = ("subdomain", "name", "current_stage", "outcome", "scraper", "cadence", "state", "kind")
        rows = [[str(getattr(row, column) or "") for column in columns] for row in sites]
        show(table(rows, tuple(column.removeprefix("current_") for column in columns)))


@click.command()
@filter_options
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV. This is the default.")
@json_option
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="File to write. Default: standard output.",
)
def export(as_csv: bool, as_json: bool, output: Path | None, **filters: str | None) -> None:
    """Export the sites with all their settings, as CSV or JSON that `clerk site import` reads.

    `extra` may contain tokens of a source: treat the file like a password file if it does.

    \b
    Examples:
      clerk site export > sites.csv
      clerk site export --json --output sites.json
      clerk site export --outcome failed --scraper legistar
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    rows = [_exported(site) for site in _read(**filters)]
    if output is None:
        _write(sys.stdout, rows, as_json)
        return
    with output.open("w", encoding="utf-8", newline="") as file:
        _write(file, rows, as_json)
    info(f"{output}: {pluralize(len(rows), 'site')}")


def _exported(site: SiteRow) -> dict[str, Any]:
    values = site.as_dict()
    return {column: values[column] for column in _EXPORTED if values[column] not in (None, {})}


def _write(file: IO[str], rows: Iterable[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        file.write(json.dumps(list(rows), indent=2, ensure_ascii=False) + "\n")
        return
    writer = csv.DictWriter(file, _EXPORTED, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        extra = row.get("extra")
        text = extra if isinstance(extra, str) or extra is None else json.dumps(extra, ensure_ascii=False)
        writer.writerow({**row, "extra": text})
