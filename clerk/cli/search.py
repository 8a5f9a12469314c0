"""`clerk search`."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import click

from clerk import config
from clerk.archive.search import HIGHLIGHT, Hit, search
from clerk.cli.output import info, json_option, print_json
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import SiteStorage
from clerk.errors import EXIT_FAILURE
from clerk.humanize import pluralize
from clerk.publish.versions import published_archives


@click.command("search")
@click.argument("words")
@click.option("--site", help="Only this site's archive.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Only meetings from this day on.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many pages.")
@json_option
def search_command(words: str, site: str | None, since: datetime | None, limit: int, as_json: bool) -> None:
    """Look for words in everything that was published here. Exit code 1 if nothing was found.

    All words have to be on the page; words in double quotes, side by side; bik* finds what begins with it. The best
    page of each archive comes first, newest first among these, then the second best of each.

    \b
    Examples:
      clerk search "bike lanes"
      clerk search 'bik* lane*' --json
      clerk search '"bike lanes" budget' --site springfield --since 2024-01-01
    """
    if site is not None and not is_subdomain(site):
        raise click.BadParameter(f"{site} cannot be a site's name", param_hint="--site")
    day: date | None = since.replace(tzinfo=UTC).date() if since else None
    settings = config.load()
    archives = published_archives(settings.publish_dir, site)
    found = search(archives, words, day, limit)
    for name, problem in found.broken.items():
        info(f"The archive of {name} cannot be searched ({problem}): clerk verify --full tells more.")
    if as_json:
        print_json([hit.as_dict() | {"image_file": _image(settings, hit)} for hit in found.hits])
    else:
        for hit in found.hits:
            show(hit)
        if not found.hits:
            click.echo(_nothing(site, len(archives)))
    click.get_current_context().exit(0 if found.hits else EXIT_FAILURE)


def _nothing(site: str | None, archives: int) -> str:
    if archives:
        return f"Nothing found in {pluralize(archives, 'archive')}."
    return f"Nothing of {site} is published here." if site else "Nothing is published here yet."


def _image(settings: config.Settings, hit: Hit) -> Path | None:
    """Where the image of the page is, if one was kept here."""
    image = SiteStorage(settings.storage_dir, hit.subdomain).image_path(hit.page_image or "")
    return image if image is not None and image.is_file() else None


def show(hit: Hit) -> None:
    head = f"{hit.subdomain}  {hit.meeting}, {hit.date}, {hit.kind}, page {hit.page}"
    # What a page says may hold control characters that a terminal would obey.
    text = "".join(c if c.isprintable() or c in HIGHLIGHT else " " for c in hit.snippet)
    before, after = click.style("|", bold=True).split("|")
    click.echo(click.style(head, fg="cyan"))
    click.echo("  " + " ".join(text.replace(HIGHLIGHT[0], before).replace(HIGHLIGHT[1], after).split(" ")))
