"""The ASGI application: which page is where."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from clerk.errors import ClerkError
from clerk.web.guard import Guard
from clerk.web.pages import overview, probes, site, sites
from clerk.web.reading import Example, Reader
from clerk.web.rendering import HERE, page

logger = logging.getLogger(__name__)

_ROUTES = [
    Route("/", overview.show),
    Route("/sites", sites.show),
    Route("/sites/{subdomain:path}", site.show),
    Route("/metrics", probes.metrics),
    Route("/livez", probes.live),
    Route("/readyz", probes.ready),
    Mount("/static", StaticFiles(directory=HERE / "static")),
]
QUERIES: list[Example] = [*overview.QUERIES, *sites.QUERIES, *site.QUERIES]
"""What must fit the database's views before the dashboard is ready."""


def create_app(reader: Reader, token: str | None = None) -> Guard:
    handlers: dict[Any, Any] = {ClerkError: _cannot_tell, HTTPException: _not_found}
    app = Starlette(routes=_ROUTES, exception_handlers=handlers)
    app.state.reader = reader
    app.state.check = partial(reader.check, QUERIES)
    return Guard(app, token)


def _cannot_tell(request: Request, error: ClerkError) -> Response:
    logger.warning("%s: %s", request.url.path, error)
    return page("problem.html", 503, what="Nothing to show right now", why=str(error))


def _not_found(request: Request, error: HTTPException) -> Response:
    response = page("problem.html", error.status_code, what="Not here", why=error.detail)
    response.headers.update(error.headers or {})
    return response
