"""What operators give about entries of a source: date, meeting and kind, checked and stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from clerk.db.audit import log_action
from clerk.documents.kinds import KINDS
from clerk.documents.sanitize import clean_text
from clerk.documents.skipped import Connection, OperatorDetails, SourceEntry, save_details
from clerk.errors import EXIT_USAGE, ClerkError
from clerk.suggestions import did_you_mean


class InvalidDetails(ClerkError):
    """A file, date, meeting or kind given for an entry of a source is invalid."""

    code = "InvalidDetails"
    exit_code = EXIT_USAGE

    def __init__(self, what: str, remedy: str, field: str = "file") -> None:
        super().__init__(what, remedy)
        self.field = field
        """The field of GivenDetails that is invalid."""


@dataclass(frozen=True)
class GivenDetails:
    """What an operator gives, as text."""

    file: str
    date: str = ""
    meeting: str = ""
    kind: str = ""


def save_as_action(
    connection: Connection, site: str, action: str, details: Sequence[OperatorDetails], dry_run: bool
) -> None:
    """Store the details and record the action."""
    with connection.transaction(force_rollback=dry_run):
        save_details(connection, site, details)
        log_action(connection, action, site, files=[one.name for one in details][:20], count=len(details))


def validate_details(site: str, entries: Sequence[SourceEntry], given: GivenDetails) -> OperatorDetails:
    """`entries`: of the source of this site."""
    entry = _find_entry(site, entries, given.file)
    day = None
    if given.date:
        try:
            day = date.fromisoformat(given.date)
        except ValueError as error:
            what = f"{given.file}: {given.date[:40]!r} is not a date"
            raise InvalidDetails(what, "write year, month and day, such as 2024-03-05", "date") from error
        if not 1700 <= day.year <= date.today().year + 2:
            raise InvalidDetails(f"{given.file}: the year of {day} is not plausible", "check the date", "date")
    if given.kind and given.kind not in KINDS:
        remedy = did_you_mean(given.kind, KINDS) or f"use one of {', '.join(KINDS)}"
        raise InvalidDetails(f"{given.file}: no kind {given.kind[:40]!r}", remedy, "kind")
    meeting = clean_text(given.meeting) or None
    return OperatorDetails(entry.source_key, entry.name, day, meeting, given.kind or None)


def _find_entry(site: str, entries: Sequence[SourceEntry], file: str) -> SourceEntry:
    exact = [entry for entry in entries if file in (entry.name, entry.source_key)]
    found = exact or [entry for entry in entries if _last_part(entry.name) == file]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(entry.name for entry in found[:3])
        raise InvalidDetails(f"{file[:200]} is not unique ({names})", "give the whole name")
    if not entries:
        raise InvalidDetails(f"no entry of the source of {site} is known", f"start a run first: clerk update {site}")
    known = {each for entry in entries for each in (entry.name, _last_part(entry.name))}
    remedy = did_you_mean(file, sorted(known), 1) or f"`clerk site skipped {site}` lists the skipped entries"
    raise InvalidDetails(f"the source has no entry {file[:200]}", remedy)


def _last_part(name: str) -> str:
    path = unquote(urlsplit(name).path) if "://" in name else name
    return PurePosixPath(path).name
