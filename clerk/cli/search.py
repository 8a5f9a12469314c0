"""`clerk search`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path

import click
from rich.text import Text

from clerk import config
from clerk.archive.search import HIGHLIGHT, Hit, search
from clerk.cli.output import info, json_option, print_json, show, text
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import SiteStorage
from clerk.errors import EXIT_FAILURE, EXIT_OK
from clerk.humanize import pluralize
from clerk.publish.versions import published_archives


@click.command("search")
@click.argument("words")
@click.option("--site", help="Search only the archive of this site.")
@click.option(
    "--since", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help="Search only meetings from this day on."
)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of pages.")
@json_option
def search_command(words: str, site: str | None, since: datetime | None, limit: int, as_json: bool) -> None:
    """Search the published archives for words. Exit code 1: no page was found.

    A page must contain all words. Words in double quotes must be adjacent, and bik* matches words that start with
    bik. The best page of each archive comes first, the newest first among these; then the second best of each.

    \b
    Examples:
      clerk search "bike lanes"
      clerk search 'bik* lane*' --json
      clerk search '"bike lanes" budget' --site springfield --since 2024-01-01
    """
    if site is not None and not is_subdomain(site):
        raise click.BadParameter(f"{site} is not a valid subdomain", param_hint="--site")
    day: date | None = since.replace(tzinfo=UTC).date() if since else None
    settings = config.load()
    archives = published_archives(settings.publish_dir, site)
    result = search(archives, words, day, limit)
    for name, problem in result.broken.items():
        info(f"The archive of {name} cannot be searched ({problem}): check it with `clerk verify --full`.")
    if as_json:
        print_json([hit.as_dict() | {"image_file": _image_file(settings, hit)} for hit in result.hits])
    else:
        for hit in result.hits:
            print_hit(hit)
        if not result.hits:
            click.echo(_no_result(site, len(archives)))
    click.get_current_context().exit(EXIT_OK if result.hits else EXIT_FAILURE)


def _no_result(site: str | None, archives: int) -> str:
    if archives:
        return f"No page found in {pluralize(archives, 'archive')}."
    return f"No archive of {site} is published." if site else "No archive is published yet."


def _image_file(settings: config.Settings, hit: Hit) -> Path | None:
    """The file of the page's image; None if no image was kept."""
    image = SiteStorage(settings.storage_dir, hit.subdomain).image_path(hit.page_image or "")
    return image if image is not None and image.is_file() else None


def print_hit(hit: Hit) -> None:
    snippet = Text("  ")
    # Each match is between two marks, so every second part is a match.
    for number, part in enumerate(re.split(f"[{''.join(HIGHLIGHT)}]", hit.snippet)):
        snippet.append_text(text(part, "bold" if number % 2 else ""))
    show(text(f"{hit.subdomain}  {hit.meeting}, {hit.date}, {hit.kind}, page {hit.page}", "cyan"), snippet)
