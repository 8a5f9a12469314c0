"""The ASGI application: which page is where."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Any

from psycopg.errors import QueryCanceled
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from clerk.errors import ClerkError
from clerk.web.action_executor import ActionExecutor
from clerk.web.auth import AuthMiddleware
from clerk.web.db import Example, ReadOnlyPool
from clerk.web.live_updates import Broadcaster
from clerk.web.pages import actions, document, failures, log, overview, probes, queues, search, site, sites
from clerk.web.rendering import HERE, page
from clerk.web.request_context import RequestContextMiddleware

logger = logging.getLogger(__name__)

_ROUTES = [
    Route("/", overview.show),
    Route("/sites", sites.show),
    Route("/failures", failures.show),
    Route("/failures/documents", failures.show_documents),
    Route("/queues", queues.show),
    Route("/log", log.show),
    Route("/search", search.show),
    Route("/sites/{subdomain:path}/documents/{document:int}", document.show),
    Route("/sites/{subdomain:path}/documents/{document:int}/pages/{page:int}.png", document.image),
    Route("/sites/{subdomain:path}/documents/{document:int}/document.pdf", document.original),
    Route("/sites/{subdomain:path}", site.show),
    Route("/metrics", probes.metrics),
    Route("/livez", probes.live),
    Route("/readyz", probes.ready),
    Mount("/static", StaticFiles(directory=HERE / "static")),
]
_LIVE = [overview.show, sites.show, site.show, failures.show, queues.show, log.show]
"""Pages that may be looked at again and again for who has them open."""
_DRAWN_AT_ONCE = 2
"""Pages, each by a process of its own: the machine has other work to do."""
QUERIES: list[Example] = [
    *(query for module in (overview, sites, site, document, search, failures, queues, log) for query in module.QUERIES),
]
"""What must fit the database's views before the dashboard is ready."""


def create_app(
    reader: ReadOnlyPool,
    token: str | None = None,
    storage_dir: Path | None = None,
    publish_dir: Path | None = None,
    actor: ActionExecutor | None = None,
) -> AuthMiddleware:
    """Without the folders, or where they are not, the pages say that the files are not on this machine.

    Without an actor it only reads: the addresses of actions do not exist then.
    """
    handlers: dict[Any, Any] = {ClerkError: _cannot_tell, QueryCanceled: _took_too_long, HTTPException: _not_found}
    app = Starlette(routes=_ROUTES, exception_handlers=handlers)
    app.state.reader = reader
    app.state.front = overview.shared_front(reader)
    app.state.storage_dir, app.state.publish_dir = storage_dir, publish_dir
    app.state.drawing = asyncio.Semaphore(_DRAWN_AT_ONCE)
    app.state.check = partial(reader.check, QUERIES)
    app.state.live = Broadcaster(app, _LIVE)
    app.router.routes.append(Route("/events", app.state.live.events))
    if actor is not None:
        app.state.actor = actor
        app.router.routes.extend(actions.ROUTES)
        app.add_middleware(RequestContextMiddleware, confirmations=actor.confirmations)
    return AuthMiddleware(app, token)


def _cannot_tell(request: Request, error: ClerkError) -> Response:
    logger.warning("%s: %s", request.url.path, error)
    return page("problem.html", 503, what="Nothing to show right now", why=str(error))


def _took_too_long(request: Request, error: QueryCanceled) -> Response:
    logger.warning("%s: %s", request.url.path, error)
    why = "The database took too long to answer: it is busy, or somebody holds a lock. Try again in a moment."
    return page("problem.html", 503, what="Nothing to show right now", why=why)


def _not_found(request: Request, error: HTTPException) -> Response:
    response = page("problem.html", error.status_code, what="Not here", why=error.detail)
    response.headers.update(error.headers or {})
    return response
