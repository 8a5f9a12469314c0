"""Form that gives a skipped entry its date, and if needed its meeting and kind. The action is confirmed afterwards."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

from psycopg import sql
from psycopg.rows import DictRow
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from clerk.db.sites import read_site
from clerk.documents.entry_details import InvalidDetails
from clerk.documents.kinds import KINDS
from clerk.documents.media_types import PDF, media_type_of
from clerk.ocr.page_render import can_render
from clerk.sources.vendors import local
from clerk.web.action_executor import request_user
from clerk.web.action_request import ActionRequest
from clerk.web.db import SampleQuery, fetch_rows
from clerk.web.pages.actions import executor_of
from clerk.web.pages.document import rendered_page
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
    entry = _read_entry(request, values["site"], values["file"])
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
    return render(
        "skipped_form.html",
        400 if errors else 200,
        values=values,
        entry=entry,
        errors=errors,
        kinds=KINDS,
        has_image=entry is not None and can_render() and _find_pdf(request, values["site"], values["file"]) is not None,
    )


async def image(request: Request) -> Response:
    """The first page of a skipped PDF in the folder of its site, as an image."""
    pdf = await run_in_threadpool(_find_listed_pdf, request)
    if pdf is None:
        raise HTTPException(404, "There is no such skipped PDF in a folder on this machine.")
    return await rendered_page(request, pdf, 1)


def _find_listed_pdf(request: Request) -> Path | None:
    site, file = (request.query_params.get(name, "").replace("\0", "") for name in ("site", "file"))
    return None if _read_entry(request, site, file) is None else _find_pdf(request, site, file)


def _read_entry(request: Request, site: str, file: str) -> DictRow | None:
    with request.app.state.pool.transaction() as connection:
        rows = fetch_rows(connection, _ENTRY, {"site": site, "file": file})
    return rows[0] if rows else None


def _find_pdf(request: Request, subdomain: str, name: str) -> Path | None:
    """The PDF of an entry, without symbolic links; None unless it is in the folder that is the site's source."""
    if media_type_of(name, "") != PDF:
        return None
    with executor_of(request).connection(request_user(request)) as connection:
        site = read_site(connection, subdomain)
    if site is None or site.scraper != "directory":
        return None
    try:
        folder = Path(str(site.extra_values.get("path", "")))
        file = (folder / name).resolve()
        return file if folder.is_absolute() and local.is_inside(file, folder) else None
    except (OSError, ValueError):
        return None  # the folder cannot be read on this machine, or `extra` is not JSON


def _check(request: Request, values: dict[str, str]) -> dict[str, str]:
    with executor_of(request).connection(request_user(request)) as connection:
        try:
            validate(connection, ActionRequest.parse("set-date", values))
        except InvalidDetails as error:
            return {error.field: f"{error.what[:1].upper()}{error.what[1:]}: {error.remedy}."}
    return {}


ROUTES = [
    Route("/skipped/date", show, methods=["GET"]),
    Route("/skipped/page.png", image, methods=["GET"]),
]
"""Only with --allow-actions."""
