"""Form that gives a skipped entry its date, and if needed its meeting and kind. The action is confirmed afterwards."""

from __future__ import annotations

from urllib.parse import urlencode

from psycopg import sql
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from clerk.documents.entry_details import InvalidDetails
from clerk.documents.kinds import KINDS
from clerk.web.action_executor import request_user
from clerk.web.action_request import ActionRequest
from clerk.web.db import SampleQuery, fetch_rows
from clerk.web.pages.actions import executor_of
from clerk.web.rendering import render
from clerk.web.skipped_actions import validate

_FIELDS = ("site", "file", "date", "meeting", "kind")
_ENTRY = sql.SQL("""
    select name, source_url, reason, date, meeting, kind from skipped_documents
    where subdomain = %(site)s and name = %(file)s limit 1
""")
QUERIES: list[SampleQuery] = [(_ENTRY, {"site": "", "file": ""})]


def show(request: Request) -> Response:
    """The form; with a date, meeting or kind, the confirmation or the form with what is wrong."""
    values = {name: request.query_params.get(name, "").replace("\0", "").strip() for name in _FIELDS}
    with request.app.state.pool.transaction() as connection:
        rows = fetch_rows(connection, _ENTRY, {"site": values["site"], "file": values["file"]})
    entry = rows[0] if rows else None
    errors = {}
    if "date" in request.query_params:
        if not (values["date"] or values["meeting"] or values["kind"]):
            errors["date"] = "Give a date, or a meeting or kind below."
        else:
            errors = _check(request, values)
        if not errors:
            return RedirectResponse(f"/actions/set-date?{urlencode(values)}", 303)
    elif entry is not None:
        values |= {name: str(entry[name] or "") for name in ("date", "meeting", "kind")}
    return render("skipped_form.html", 400 if errors else 200, values=values, entry=entry, errors=errors, kinds=KINDS)


def _check(request: Request, values: dict[str, str]) -> dict[str, str]:
    with executor_of(request).connection(request_user(request)) as connection:
        try:
            validate(connection, ActionRequest.parse("set-date", values))
        except InvalidDetails as error:
            return {error.field: f"{error.what[:1].upper()}{error.what[1:]}: {error.remedy}."}
    return {}


ROUTES = [Route("/skipped/date", show, methods=["GET"])]
"""Only with --allow-actions."""
