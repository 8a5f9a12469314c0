"""Endpoints for programs: Prometheus metrics, readiness and liveness."""

from __future__ import annotations

import logging

import psycopg
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from clerk.errors import ClerkError, DatabaseUnreachable, SchemaMismatch
from clerk.monitoring.metrics import CONTENT_TYPE, render

logger = logging.getLogger(__name__)


def metrics(request: Request) -> Response:
    try:
        text = render(request.app.state.pool.metrics())
    except psycopg.errors.QueryCanceled:
        return PlainTextResponse("the database query timed out\n", 503)
    return PlainTextResponse(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


def ready(request: Request) -> Response:
    try:
        request.app.state.check()
    except ClerkError as error:
        # The full message names host and user. This endpoint needs no token, so only the log gets it.
        logger.warning("not ready: %s", error)
        return PlainTextResponse(f"not ready: {_public_message(error)}\n", 503)
    return PlainTextResponse("ready\n")


async def live(request: Request) -> Response:
    return PlainTextResponse("alive\n")


def _public_message(error: ClerkError) -> str:
    match error:
        case DatabaseUnreachable():
            return "the database cannot be reached"
        case SchemaMismatch():
            return 'the database schema does not match this version of the dashboard; run "clerk db up"'
        case _:
            return "the database refused the query; see the log"
