"""Operator actions on skipped entries of a source: set the date, ignore, report again."""

from __future__ import annotations

from typing import Any

import psycopg

from clerk.db.sites import read_site, site_not_found
from clerk.documents.entry_details import GivenDetails, save_as_action, validate_details
from clerk.documents.skipped import OperatorDetails, list_entries
from clerk.web.action_request import ActionRequest, ActionResult, InvalidAction

Connection = psycopg.Connection[Any]


def validate(connection: Connection, request: ActionRequest) -> OperatorDetails:
    """Raises InvalidDetails with the field that is invalid."""
    if not request.site or not request.file:
        raise InvalidAction("A field is missing: give a site and a file.")
    if read_site(connection, request.site) is None:
        raise site_not_found(connection, request.site)
    given = GivenDetails(request.file, request.date, request.meeting, request.kind)
    return validate_details(request.site, list_entries(connection, request.site), given)


def set_date(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    details = validate(connection, request)
    if details.date is None and details.meeting is None and details.kind is None:
        raise InvalidAction("Give a date, a meeting or a kind.")
    save_as_action(connection, request.site, "date", [details], dry_run)
    given = {"date": details.date, "meeting": details.meeting, "kind": details.kind}
    values = ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)
    return ActionResult(
        f"{details.name} of {request.site} gets the {values}.",
        f"{details.name} has the {values} now. The next run of {request.site} reads it.",
        [f"The next run of {request.site} fetches and reads it. Update now, on the page of the site, starts one."],
    )


def ignore(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    details = validate(connection, request)
    save_as_action(
        connection,
        request.site,
        "ignore",
        [OperatorDetails(details.source_key, details.name, ignored=True)],
        dry_run,
    )
    return ActionResult(
        f"{details.name} of {request.site} will no longer be reported as skipped.",
        f"{details.name} of {request.site} is ignored.",
        ["It can be reported again later."],
    )


def report(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    details = validate(connection, request)
    save_as_action(connection, request.site, "report", [OperatorDetails(details.source_key, details.name)], dry_run)
    return ActionResult(
        f"{details.name} of {request.site} will be reported as skipped again.",
        f"{details.name} of {request.site} is reported again.",
    )
