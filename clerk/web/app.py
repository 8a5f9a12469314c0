"""The ASGI application: a function per page."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
import psycopg
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from clerk.errors import ClerkError, DatabaseUnreachable, SchemaUnknown
from clerk.pg.metrics import CONTENT_TYPE, render
from clerk.web.guard import Guard
from clerk.web.reading import STAGES, Choice, Reader

logger = logging.getLogger(__name__)
_HERE = Path(__file__).parent
_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def create_app(reader: Reader, token: str | None = None) -> Guard:
    def overview(request: Request) -> Response:
        return _page("overview.html", front=reader.front())

    def sites(request: Request) -> Response:
        given = request.query_params
        choice = Choice.of(*(given.get(name, "") for name in ("text", "stage", "order", "page")))
        return _page("sites.html", choice=choice, listing=reader.sites(choice), stages=STAGES, link=_link_to(choice))

    def site(request: Request) -> Response:
        name = request.path_params["subdomain"]
        found = reader.site(name)
        if found is None:
            raise HTTPException(404, f"There is no site {name}.")
        return _page("site.html", site=found, stages=STAGES)

    def metrics(request: Request) -> Response:
        try:
            text = render(reader.metrics())
        except psycopg.errors.QueryCanceled:
            return PlainTextResponse("the views took too long\n", 503)
        return PlainTextResponse(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    def ready(request: Request) -> Response:
        try:
            reader.check()
        except ClerkError as error:
            # The sentence names host and user, which is for the log only: anybody may ask here.
            logger.warning("not ready: %s", error)
            return PlainTextResponse(f"not ready: {_in_short(error)}\n", 503)
        return PlainTextResponse("ready\n")

    async def live(request: Request) -> Response:
        return PlainTextResponse("alive\n")

    routes = [
        Route("/", overview),
        Route("/sites", sites),
        Route("/sites/{subdomain:path}", site),
        Route("/metrics", metrics),
        Route("/livez", live),
        Route("/readyz", ready),
        Mount("/static", StaticFiles(directory=_HERE / "static")),
    ]
    handlers: dict[Any, Any] = {ClerkError: _cannot_tell, HTTPException: _not_found}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token)


def _in_short(error: ClerkError) -> str:
    match error:
        case DatabaseUnreachable():
            return "the database cannot be reached"
        case SchemaUnknown():
            return 'the schema is not the one that this dashboard reads, run "clerk db up"'
        case _:
            return "the database refuses, see the log"


def _cannot_tell(request: Request, error: ClerkError) -> Response:
    logger.warning("%s: %s", request.url.path, error)
    return _page("problem.html", 503, what="Nothing to show right now", why=str(error))


def _not_found(request: Request, error: HTTPException) -> Response:
    response = _page("problem.html", error.status_code, what="Not here", why=error.detail)
    response.headers.update(error.headers or {})
    return response


def _page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_templates.get_template(template).render(values), status, {"Cache-Control": "no-store"})


def _link_to(choice: Choice) -> Callable[..., str]:
    """In a template: the address of the same list with something changed. What is left at its default is left out."""

    def link(**changes: Any) -> str:
        wanted = vars(choice) | {"page": 1} | changes
        default = vars(Choice())
        return "/sites?" + urlencode({name: value for name, value in wanted.items() if value != default[name]})

    return link


def _ago(moment: datetime.datetime | None) -> str:
    if moment is None:
        return "never"
    seconds = (datetime.datetime.now(datetime.UTC) - moment).total_seconds()
    for size, unit in _AGES:
        if seconds >= size:
            return f"{seconds // size:,.0f} {unit} ago"
    return "just now"


_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {"ago": _ago, "number": "{:,}".format}
