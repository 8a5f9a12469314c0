"""`clerk search`."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import click

from clerk import config
from clerk.archive.search import MARKS, Hit, search
from clerk.archive.versions import DATABASE, Published
from clerk.cli.output import json_option, print_json
from clerk.documents.names import is_subdomain
from clerk.errors import WRONG


def published_archives(settings: config.Settings, site: str | None) -> list[tuple[str, Path]]:
    """Subdomain and database of everything that is published here."""
    names = [site] if site else sorted(path.name for path in settings.publish_dir.glob("*") if is_subdomain(path.name))
    found = ((name, Published(settings.publish_dir, name).link / DATABASE) for name in names)
    return [(name, database) for name, database in found if database.is_file()]


@click.command("search")
@click.argument("words")
@click.option("--site", help="Only this site's archive.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Only meetings from this day on.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many pages.")
@json_option
def search_command(words: str, site: str | None, since: datetime | None, limit: int, as_json: bool) -> None:
    """Look for words in everything that was published here. Exit code 1 if nothing was found.

    All words have to be on the page; words in double quotes, side by side.

    \b
    Examples:
      clerk search "bike lanes"
      clerk search '"bike lanes" budget' --site springfield --since 2024-01-01
    """
    if site is not None and not is_subdomain(site):
        raise click.BadParameter(f"{site} cannot be a site's name", param_hint="--site")
    archives = published_archives(config.load(), site)
    day: date | None = since.replace(tzinfo=UTC).date() if since else None
    hits = search(archives, words, day, limit)
    if as_json:
        print_json([hit.as_dict() for hit in hits])
    else:
        for hit in hits:
            show(hit)
        if not hits:
            click.echo(f"Nothing found in {len(archives)} archive{'' if len(archives) == 1 else 's'}.")
    click.get_current_context().exit(0 if hits else WRONG)


def show(hit: Hit) -> None:
    head = f"{hit.subdomain}  {hit.meeting}, {hit.date}, {hit.kind}, page {hit.page}"
    # What a page says may hold control characters that a terminal would obey.
    text = "".join(c if c.isprintable() or c in MARKS else " " for c in hit.snippet)
    before, after = click.style("|", bold=True).split("|")
    click.echo(click.style(head, fg="cyan"))
    click.echo("  " + " ".join(text.replace(MARKS[0], before).replace(MARKS[1], after).split(" ")))
