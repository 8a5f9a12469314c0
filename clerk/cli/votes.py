"""`clerk votes`: the votes of the published archives."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import click

from clerk import config
from clerk.archive import votes as archive
from clerk.archive.content_hash import open_readonly
from clerk.archive.vote_rows import ROLL_FIELDS, VOTE_FIELDS, roll_rows, vote_row, write_csv
from clerk.cli.names import Group
from clerk.cli.output import info, json_option, nothing_published, print_json
from clerk.cli.published import Day, check_site_option
from clerk.errors import EXIT_FAILURE, EXIT_OK
from clerk.humanize import pluralize
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import published_archives
from clerk.suggestions import did_you_mean

_MAX_ARCHIVES = 100
_MAX_PEOPLE = 1000
"""Limits of what is read for the suggestion of a name."""


@click.group("votes", cls=Group)
def votes() -> None:
    """Votes in the published archives: who moved, seconded and voted, and how it ended."""


@votes.command("export")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV. This is the default.")
@json_option
@click.option("--rolls", is_flag=True, help="Print a row per person and vote instead of a row per vote.")
@click.option("--site", help="Export only the votes of this site.")
@click.option("--person", help="Export only votes in which a person whose name contains these words took part.")
@click.option("--since", type=Day(), metavar="YYYY-MM-DD", help="Export only votes from this day on.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="File to write. Default: standard output.",
)
def export(
    as_csv: bool,
    as_json: bool,
    rolls: bool,
    site: str | None,
    person: str | None,
    since: date | None,
    output: Path | None,
) -> None:
    """Export votes as CSV or JSON, the newest of each site first.

    Exit code 1: no vote was found, or an archive could not be read.

    The result is empty where the text does not tell it. `contradictory`: the stated result and the tally disagree.

    \b
    Examples:
      clerk votes export --csv > votes.csv
      clerk votes export --person "jane smith" --rolls --since 2024-01-01
      clerk votes export --site springfield --json --output votes.json
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    settings = config.load()
    check_site_option(settings, site)
    archives = published_archives(settings.publish_dir, site)
    export = _Export(person, since.isoformat() if since else "", rolls=rolls)
    rows = export.rows(archives)
    if as_json:
        found = list(rows)
        if output is None:
            print_json(found)
        else:
            output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    elif output is None:
        write_csv(sys.stdout, export.fields, rows)
    else:
        with output.open("w", encoding="utf-8", newline="") as file:
            write_csv(file, export.fields, rows)
    if not archives:
        info(nothing_published(site))
    elif output is not None or not export.count:
        what = "individual vote" if rolls else "vote"
        info(f"{pluralize(export.count, what)} of {pluralize(len(archives), 'archive')}.")
        if person and not export.count:
            info(_suggest_person(person, archives))
    click.get_current_context().exit(EXIT_OK if export.count and not export.unread else EXIT_FAILURE)


def _suggest_person(person: str, archives: list[tuple[str, StoragePath]]) -> str:
    """What to try instead of a name, or part of one, that no vote has."""
    names: set[str] = set()
    for _, database in archives[:_MAX_ARCHIVES]:
        with suppress(sqlite3.Error), open_readonly(database) as connection:
            names |= {person.name for person in archive.find_people(connection, limit=_MAX_PEOPLE)}
    known = names | {word for name in names for word in name.split()}
    nearest = did_you_mean(person, sorted(known))
    return f"Nobody is called {person}{f'; {nearest}' if nearest else ': `clerk search` finds names in the documents.'}"


class _Export:
    """Reads the archives one after the other, so that the export of all sites fits in memory."""

    def __init__(self, person: str | None, since: str, *, rolls: bool) -> None:
        self.person, self.since, self.rolls = person, since, rolls
        self.fields = ROLL_FIELDS if rolls else VOTE_FIELDS
        self.count = 0
        self.unread = 0

    def rows(self, archives: list[tuple[str, StoragePath]]) -> Iterator[dict[str, Any]]:
        for site, database in archives:
            try:
                found = self._rows_of(site, database)
            except sqlite3.Error as error:
                self.unread += 1
                info(f"The archive of {site} cannot be read ({error}): check it with `clerk verify --full`.")
                continue
            for row in found:
                self.count += 1
                yield row

    def _rows_of(self, site: str, database: StoragePath) -> list[dict[str, Any]]:
        with open_readonly(database) as connection:
            if not archive.has_tables(connection):
                self.unread += 1
                info(
                    f"The archive of {site} was published by an earlier version, without tables of votes:"
                    f" `clerk rewind {site} --to extraction` adds them."
                )
                return []
            people = None
            if self.person is not None:
                people = [person.id for person in archive.find_people(connection, self.person, limit=-1)]
            votes = archive.read_votes(connection, archive.VoteFilter(people, self.since))
        if self.rolls:
            return [row for vote in votes for row in roll_rows(site, vote, people)]
        return [vote_row(site, vote) for vote in votes]
