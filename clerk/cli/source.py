"""Requests of commands to sources: detection, and the listing of a source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from clerk.cli.output import text
from clerk.sources.detection_result import Candidate
from clerk.sources.listing import SourceListing, describe_listing

LISTING_SECONDS = 120

time_limit_option = click.option(
    "--time-limit",
    type=click.FloatRange(min=0),
    default=LISTING_SECONDS,
    show_default=True,
    help="Seconds for the listing, 0 for no limit. What was listed until then is shown.",
)


def candidate_rows(candidate: Candidate) -> list[tuple[str, Any]]:
    """What was detected, for a table."""
    missing = [("missing", text(", ".join(candidate.missing)))] if candidate.missing else []
    evidence = [("evidence" if not number else "", text(line)) for number, line in enumerate(candidate.evidence)]
    return [
        ("vendor", f"{candidate.scraper} ({candidate.confidence})"),
        ("settings", text(json.dumps(candidate.extra, ensure_ascii=False))),
        *missing,
        *evidence,
    ]


def listing_rows(listing: SourceListing, undated: str = "") -> list[tuple[str, Any]]:
    """What a source lists, for a table. `undated`: more about documents without a date."""
    return [(name, text(value)) for name, value in describe_listing(listing, undated)]


def describe_failure(error: BaseException) -> Mapping[str, str]:
    return {"code": str(getattr(error, "code", type(error).__name__)), "message": str(error)}
