"""Votes and people as rows of CSV or JSON, for `clerk votes export` and the dashboard."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import IO, Any

from clerk.archive.vote_tables import PEOPLE_COLUMNS
from clerk.archive.votes import TALLY, Person, Vote

VOTE_FIELDS = (
    "site", "date", "meeting", "kind", "page", "vote_id", "motion", "motion_by", "seconded_by", "result",
    "contradictory", "ayes",
    "nays", "abstain", "absent", "voted_aye", "voted_nay", "abstained", "were_absent", "text",
)  # fmt: skip
ROLL_FIELDS = (
    "site", "date", "meeting", "kind", "page", "vote_id", "person_id", "person", "vote", "result", "contradictory",
    "motion",
)  # fmt: skip
PEOPLE_FIELDS = ("site", *PEOPLE_COLUMNS)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a cell that starts with one of these as a formula."""


def vote_row(site: str, vote: Vote) -> dict[str, Any]:
    return _place(site, vote) | {
        "motion": vote.motion,
        "motion_by": vote.motion_by,
        "seconded_by": vote.seconded_by,
        "result": vote.result,
        "contradictory": vote.contradictory,
        **{key: getattr(vote, key) for key in TALLY},
        "voted_aye": vote.named("aye"),
        "voted_nay": vote.named("nay"),
        "abstained": vote.named("abstain"),
        "were_absent": vote.named("absent"),
        "text": vote.raw_text,
    }


def roll_rows(site: str, vote: Vote, people: list[str] | None) -> Iterator[dict[str, Any]]:
    """A row per person. `people`: only these ids."""
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


def person_row(site: str, person: Person) -> dict[str, Any]:
    return {"site": site} | asdict(person)


def write_csv(file: IO[str], fields: Iterable[str], rows: Iterable[dict[str, Any]]) -> None:
    writer = csv.DictWriter(file, list(fields))
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})


def as_csv(fields: Iterable[str], rows: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO()
    write_csv(text, fields, rows)
    return text.getvalue()


def _place(site: str, vote: Vote) -> dict[str, Any]:
    return {
        "site": site,
        "date": vote.date,
        "meeting": vote.meeting,
        "kind": vote.kind,
        "page": vote.page,
        "vote_id": vote.id,
    }


def _cell(value: object) -> object:
    if isinstance(value, list):
        value = "; ".join(value)
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
