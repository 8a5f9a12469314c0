"""`clerk site skipped`, `date` and `ignore`: entries of a site's source that did not become documents."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from clerk.cli.connection import open_pipeline
from clerk.cli.names import NameChoice
from clerk.cli.output import dry_run_option, dry_run_prefix, info, json_option, line, print_json, show, text
from clerk.db.sites import require_site
from clerk.documents.entry_details import GivenDetails, InvalidDetails, save_as_action, validate_details
from clerk.documents.kinds import KINDS
from clerk.documents.skipped import OperatorDetails, SourceEntry, list_entries, needs_date
from clerk.humanize import pluralize
from clerk.monitoring.query import fetch_rows

_COLUMNS = ("file", "date", "meeting", "kind")
_REASON = "reason"
"""A column of `clerk site skipped --csv` that `clerk site date --csv` ignores."""
_ESCAPED = ("'=", "'+", "'-", "'@")
"""Beginnings of cells with an apostrophe, which keeps a spreadsheet from taking them for formulas."""
_SKIPPED = """
select name, source_url, reason_code, reason, skipped_since, run_id, state, date, meeting, kind, set_by, set_at
from skipped_documents where subdomain = %(site)s and (%(all)s or state = 'open') order by name
"""


@click.command()
@click.argument("site")
@click.option("--all", "show_all", is_flag=True, help="Also those with a date from an operator, and ignored ones.")
@click.option("--csv", "as_csv", is_flag=True, help="Print those that need a date as CSV, for `clerk site date --csv`.")
@json_option
def skipped(site: str, show_all: bool, as_csv: bool, as_json: bool) -> None:
    """List the entries of a site's source that did not become documents, with the reasons.

    `clerk site date` gives a date to one of them, `clerk site ignore` marks one that needs none.

    \b
    Examples:
      clerk site skipped springfield
      clerk site skipped springfield --json
      clerk site skipped springfield --csv > dates.csv
    """
    if as_csv and as_json:
        raise click.UsageError("Give either --csv or --json.")
    with open_pipeline() as connection:
        require_site(connection, site)
        rows = fetch_rows(connection, _SKIPPED, site=site, all=show_all)
    if as_json:
        print_json({"site": site, "skipped": rows})
        return
    if as_csv:
        _print_csv(rows)
        return
    if not rows:
        click.echo(f"{site}: no entry of the source is skipped.")
        return
    click.echo(f"{site}: {pluralize(len(rows), 'entry', 'entries')} of the source skipped.")
    for row in rows:
        state = {"open": "", "ignored": "  (ignored)"}.get(
            row["state"], f"  (the next run reads it, as of {row['date']})"
        )
        show(text(f"{row['name']}{state}", "bold"), line(f"  {row['reason']}"))
    codes = {row["reason_code"] for row in rows if row["state"] == "open"}
    if codes:
        click.echo("")
    if any(map(needs_date, codes)):
        click.echo(f"Give one a date, for the next run:  clerk site date {site} FILE YYYY-MM-DD")
        click.echo(f"Give many one:  clerk site skipped {site} --csv > FILE, then clerk site date {site} --csv FILE")
    if codes:
        click.echo(f"Report one no longer:  clerk site ignore {site} FILE")


@click.command()
@click.argument("site")
@click.argument("file", required=False)
@click.argument("date", required=False, metavar="[DATE]")
@click.option("--meeting", help="Name of the body that met.")
@click.option("--kind", type=NameChoice("kind", KINDS), help="Kind of the document.")
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV with the header file,date and, if needed, meeting and kind.",
)
@dry_run_option
@json_option
def date_command(
    site: str,
    file: str | None,
    date: str | None,
    meeting: str | None,
    kind: str | None,
    csv_file: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Give the date, the meeting or the kind of a document. The next run uses it.

    FILE is a name that `clerk site skipped` lists, its last part if no other file has it, or the address of a document
    that has a wrong date, meeting or kind. Nothing is changed if one line of the CSV is invalid; a line without date,
    meeting and kind is left out. `clerk site skipped SITE --csv` prints such a file, for a spreadsheet.

    \b
    Examples:
      clerk site date springfield "Reports/SanJose4.pdf" 2021-08-04
      clerk site date springfield scan12.pdf 1998-07-13 --kind ordinance --meeting "City Council"
      clerk site date springfield --csv dates.csv --dry-run
    """
    if (csv_file is None) == (file is None):
        raise click.UsageError("Give either FILE and DATE, or --csv.")
    if file is not None:
        if not (date or meeting or kind):
            raise click.UsageError("Give a DATE, --meeting or --kind.")
        given = [GivenDetails(file, date or "", meeting or "", kind or "")]
    else:
        assert csv_file is not None
        if date or meeting or kind:
            raise click.UsageError("With --csv, give date, meeting and kind in the file.")
        given = _read_csv(csv_file)
    with open_pipeline() as connection:
        require_site(connection, site)
        details = _validate(site, list_entries(connection, site), given)
        save_as_action(connection, site, "date", details, dry_run)
    if as_json:
        print_json({"site": site, "dated": [asdict(one) for one in details], "dry_run": dry_run})
        return
    for one in details:
        values = ", ".join(str(value) for value in (one.date, one.meeting, one.kind) if value is not None)
        click.echo(dry_run_prefix(dry_run, f"{one.name}: {values}"))
    if not details:
        info(f"No line of {csv_file} has a date, a meeting or a kind: nothing was changed.")
    elif not dry_run:
        info(f"The next run of {site} uses it; to start one now: clerk update {site}")


@click.command()
@click.argument("site")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--undo", is_flag=True, help="Report the entries again.")
@dry_run_option
@json_option
def ignore(site: str, files: tuple[str, ...], undo: bool, dry_run: bool, as_json: bool) -> None:
    """Ignore skipped entries that are not documents: they are no longer reported.

    \b
    Examples:
      clerk site ignore springfield "about us.pdf"
      clerk site ignore springfield "about us.pdf" --undo
    """
    with open_pipeline() as connection:
        require_site(connection, site)
        found = _validate(site, list_entries(connection, site), [GivenDetails(name) for name in files])
        details = [OperatorDetails(one.source_key, one.name, ignored=not undo) for one in found]
        save_as_action(connection, site, "report" if undo else "ignore", details, dry_run)
    if as_json:
        print_json({"site": site, "ignored": not undo, "files": [one.name for one in details], "dry_run": dry_run})
        return
    for one in details:
        click.echo(dry_run_prefix(dry_run, f"{one.name}: {'reported again' if undo else 'ignored'}"))


def _read_csv(path: Path) -> list[GivenDetails]:
    try:
        rows = list(csv.DictReader(path.read_text("utf-8-sig").splitlines(), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidDetails(f"{path} cannot be read ({error})", "give a CSV file in UTF-8") from error
    header = {str(name).strip().lower() for name in (rows[0] if rows else {})}
    if "file" not in header or header - {*_COLUMNS, _REASON}:
        raise InvalidDetails(f"{path} has no header with file and date", f"use the columns {', '.join(_COLUMNS)}")
    given = [_parse_row(row) for row in rows]
    return [one for one in given if one.date or one.meeting or one.kind]


def _print_csv(rows: Iterable[dict[str, Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*_COLUMNS, _REASON])
    for row in rows:
        if needs_date(row["reason_code"]):
            cells = ["" if row[name] is None else str(row[name]) for name in ("name", *_COLUMNS[1:], _REASON)]
            writer.writerow([f"'{cell}" if f"'{cell[:1]}" in _ESCAPED else cell for cell in cells])


def _parse_row(row: dict[str, Any]) -> GivenDetails:
    values = {str(name).strip().lower(): str(value or "").strip() for name, value in row.items()}
    if values["file"][:2] in _ESCAPED:
        values["file"] = values["file"][1:]
    return GivenDetails(*(values.get(name, "") for name in _COLUMNS))


def _validate(site: str, entries: Sequence[SourceEntry], given: Iterable[GivenDetails]) -> list[OperatorDetails]:
    """Check all of them, and report every invalid one, not only the first."""
    details, problems = [], []
    for one in given:
        try:
            details.append(validate_details(site, entries, one))
        except InvalidDetails as error:
            problems.append(error)
    if len(problems) == 1 and not details:
        raise problems[0]
    if problems:
        for problem in problems:
            info(f"clerk: {problem}")
        raise InvalidDetails(
            f"{len(problems)} of {pluralize(len(problems) + len(details), 'line')}"
            f" {'is' if len(problems) == 1 else 'are'} invalid",
            "correct them; nothing was changed",
        )
    return details
