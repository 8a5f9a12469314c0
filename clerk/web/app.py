"""The ASGI application of the dashboard: routes, shared state and error pages."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from psycopg.errors import QueryCanceled
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from clerk.archive.hits import PAGE_ROUTE
from clerk.errors import ClerkError
from clerk.monitoring.alert import RUNBOOK_ROUTE
from clerk.object_storage.path import StoragePath
from clerk.web.action_executor import ActionExecutor
from clerk.web.auth import AuthMiddleware
from clerk.web.db import ReadOnlyPool, SampleQuery
from clerk.web.documentation import FOLDER as DOCS
from clerk.web.live_updates import Broadcaster
from clerk.web.pages import (
    actions,
    document,
    documentation,
    downloads,
    failures,
    job,
    log,
    overview,
    probes,
    queues,
    saved_searches,
    search,
    site,
    site_form,
    sites,
    skipped,
    skipped_form,
    votes,
)
from clerk.web.rendering import WEB_DIR, render
from clerk.web.request_context import RequestContextMiddleware

logger = logging.getLogger(__name__)

_ROUTES = [
    Route("/", overview.show),
    Route("/sites", sites.show),
    Route("/sites/new", site_form.new, methods=["GET"]),
    Route("/failures", failures.show),
    Route("/failures/documents", failures.show_documents),
    Route("/skipped", skipped.show),
    Route("/queues", queues.show),
    Route("/jobs/{job:int}", job.show),
    Route("/log", log.show),
    Route("/search", search.show),
    Route("/search.csv", search.show_csv),
    Route("/alerts", saved_searches.show),
    Route("/feeds/alerts/{name}.atom", saved_searches.saved_search_feed),
    Route("/feeds/sites/{subdomain}.atom", saved_searches.site_feed),
    Route(PAGE_ROUTE + "/{subdomain}/{kind}/{date}/{meeting:path}/{page:int}", search.show_page),
    Route("/sites/{subdomain:path}/documents/{document:int}", document.show),
    Route("/sites/{subdomain:path}/documents/{document:int}/pages/{page:int}.png", document.image),
    Route("/sites/{subdomain:path}/documents/{document:int}/pages/{page:int}.svg", document.matches),
    Route("/sites/{subdomain:path}/documents/{document:int}/document.{extension}", document.original),
    Route("/sites/{subdomain:path}/documents/{document:int}/text.txt", downloads.text),
    Route("/sites/{subdomain:path}/documents/{document:int}/searchable.pdf", downloads.searchable),
    Route("/sites/{subdomain:path}/votes", votes.show_votes),
    Route("/sites/{subdomain:path}/votes.csv", votes.show_votes_csv),
    Route("/sites/{subdomain:path}/votes/{vote}", votes.show_vote),
    Route("/sites/{subdomain:path}/people", votes.show_people),
    Route("/sites/{subdomain:path}/people.csv", votes.show_people_csv),
    Route("/sites/{subdomain:path}/people/{person}", votes.show_person),
    Route("/sites/{subdomain:path}", site.show),
    Route("/docs/{page:path}.md", documentation.show),
    Mount("/docs", StaticFiles(directory=DOCS)),  # images, and the files that pages link to
    Route(RUNBOOK_ROUTE, documentation.show_runbook),
    Route("/metrics", probes.metrics),
    Route("/livez", probes.live),
    Route("/readyz", probes.ready),
    Mount("/static", StaticFiles(directory=WEB_DIR / "static")),
]
_LIVE_PAGES = [overview.show, sites.show, site.show, failures.show, skipped.show, queues.show, log.show, job.show]
_PAGES = (overview, sites, site, document, search, saved_searches, failures, skipped, queues, log, job)
_MAX_RENDER_PROCESSES = 2
"""Each renders one page of a PDF; more would take CPU time from the pipeline."""
_MAX_LOOKUPS = 2
"""Sources that the forms of new sites look at, each in a thread."""
QUERIES: list[SampleQuery] = [
    *(query for module in _PAGES for query in module.QUERIES),
]
"""The dashboard is ready when these match the views of the database."""


def create_app(
    pool: ReadOnlyPool,
    token: str | None = None,
    storage_dir: StoragePath | None = None,
    publish_dir: StoragePath | None = None,
    executor: ActionExecutor | None = None,
    public_url: str | None = None,
) -> AuthMiddleware:
    """Without the folders, pages say that the files are not on this machine; without an executor, no action exists."""
    handlers: dict[Any, Any] = {
        ClerkError: _show_clerk_error,
        QueryCanceled: _show_timeout,
        HTTPException: _show_http_error,
    }
    app = Starlette(routes=_ROUTES, exception_handlers=handlers)
    app.state.pool = pool
    app.state.overview = overview.cached_overview(pool)
    app.state.storage_dir, app.state.publish_dir = storage_dir, publish_dir
    app.state.public_url = public_url
    app.state.lookup_slots = asyncio.Semaphore(_MAX_LOOKUPS)
    app.state.render_slots = asyncio.Semaphore(_MAX_RENDER_PROCESSES)
    app.state.readiness = probes.Readiness(partial(pool.check, QUERIES))
    app.state.broadcaster = Broadcaster(app, _LIVE_PAGES)
    app.router.routes.append(Route("/events", app.state.broadcaster.events))
    if executor is not None:
        app.state.executor = executor
        # Before the page of a site, whose path matches everything below /sites.
        app.router.routes[:0] = [*actions.ROUTES, *site_form.ROUTES, *skipped_form.ROUTES]
        app.add_middleware(RequestContextMiddleware, tokens=executor.tokens)
    return AuthMiddleware(app, token)


def _show_clerk_error(request: Request, error: ClerkError) -> Response:
    logger.warning("%s: %s", request.url.path, error)
    return render("error.html", 503, title="This page cannot be shown now", message=str(error))


def _show_timeout(request: Request, error: QueryCanceled) -> Response:
    logger.warning("%s: %s", request.url.path, error)
    message = "The database query timed out: the database is busy, or a lock is held. Try again in a moment."
    return render("error.html", 503, title="This page cannot be shown now", message=message)


def _show_http_error(request: Request, error: HTTPException) -> Response:
    title = "Not found" if error.status_code == 404 else "The request failed"
    message = "There is no page at this address." if error.detail == "Not Found" else error.detail
    response = render("error.html", error.status_code, title=title, message=message)
    response.headers.update(error.headers or {})
    return response
