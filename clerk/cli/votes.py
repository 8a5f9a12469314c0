"""`clerk votes`: the votes of the published archives."""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import click

from clerk import config
from clerk.archive import votes as archive
from clerk.archive.content_hash import open_readonly
from clerk.cli.names import Group
from clerk.cli.output import info, json_option, print_json
from clerk.cli.published import check_site_option
from clerk.errors import EXIT_FAILURE, EXIT_OK
from clerk.humanize import pluralize
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import published_archives

_VOTE_FIELDS = (
    "site", "date", "meeting", "kind", "page", "vote_id", "motion", "motion_by", "seconded_by", "result",
    "contradictory", "ayes",
    "nays", "abstain", "absent", "voted_aye", "voted_nay", "abstained", "were_absent", "text",
)  # fmt: skip
_ROLL_FIELDS = (
    "site",
    "date",
    "meeting",
    "kind",
    "page",
    "vote_id",
    "person_id",
    "person",
    "vote",
    "result",
    "contradictory",
    "motion",
)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a cell that starts with one of these as a formula."""


@click.group("votes", cls=Group)
def votes() -> None:
    """Votes in the published archives: who moved, seconded and voted, and how it ended."""


@votes.command("export")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV. This is the default.")
@json_option
@click.option("--rolls", is_flag=True, help="Print a row per person and vote instead of a row per vote.")
@click.option("--site", help="Export only the votes of this site.")
@click.option("--person", help="Export only votes in which a person whose name contains these words took part.")
@click.option(
    "--since", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help="Export only votes from this day on."
)
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
    since: datetime | None,
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
    export = _Export(person, f"{since:%Y-%m-%d}" if since else "", rolls=rolls)
    rows = export.rows(archives)
    if as_json:
        found = list(rows)
        if output is None:
            print_json(found)
        else:
            output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    elif output is None:
        _write_csv(sys.stdout, export.fields, rows)
    else:
        with output.open("w", encoding="utf-8", newline="") as file:
            _write_csv(file, export.fields, rows)
    if not archives:
        info(f"No archive of {site} is published." if site else "No archive is published yet.")
    elif output is not None or not export.count:
        what = "individual vote" if rolls else "vote"
        info(f"{pluralize(export.count, what)} of {pluralize(len(archives), 'archive')}.")
    click.get_current_context().exit(EXIT_OK if export.count and not export.unread else EXIT_FAILURE)


class _Export:
    """Reads the archives one after the other, so that the export of all sites fits in memory."""

    def __init__(self, person: str | None, since: str, *, rolls: bool) -> None:
        self.person, self.since, self.rolls = person, since, rolls
        self.fields = _ROLL_FIELDS if rolls else _VOTE_FIELDS
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
            votes = archive.read_votes(connection, people, self.since)
        if self.rolls:
            return [row for vote in votes for row in _roll_rows(site, vote, people)]
        return [_vote_row(site, vote) for vote in votes]


def _vote_row(site: str, vote: archive.Vote) -> dict[str, Any]:
    return _place(site, vote) | {
        "motion": vote.motion,
        "motion_by": vote.motion_by,
        "seconded_by": vote.seconded_by,
        "result": vote.result,
        "contradictory": vote.contradictory,
        **{key: getattr(vote, key) for key in archive.TALLY},
        "voted_aye": vote.named("aye"),
        "voted_nay": vote.named("nay"),
        "abstained": vote.named("abstain"),
        "were_absent": vote.named("absent"),
        "text": vote.raw_text,
    }


def _roll_rows(site: str, vote: archive.Vote, people: list[str] | None) -> Iterator[dict[str, Any]]:
    for ballot in vote.roll:
        if people is None or ballot.person_id in people:
            yield _place(site, vote) | {
                "person_id": ballot.person_id,
                "person": ballot.name,
                "vote": ballot.vote,
                "result": vote.result,
                "contradictory": vote.contradictory,
                "motion": vote.motion,
            }


def _place(site: str, vote: archive.Vote) -> dict[str, Any]:
    return {
        "site": site,
        "date": vote.date,
        "meeting": vote.meeting,
        "kind": vote.kind,
        "page": vote.page,
        "vote_id": vote.id,
    }


def _write_csv(file: IO[str], fields: tuple[str, ...], rows: Iterator[dict[str, Any]]) -> None:
    writer = csv.DictWriter(file, fields)
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})


def _cell(value: object) -> object:
    if isinstance(value, list):
        value = "; ".join(value)
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
