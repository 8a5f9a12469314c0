"""For programs: the metrics, whether the dashboard works, whether it lives."""

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
        text = render(request.app.state.reader.metrics())
    except psycopg.errors.QueryCanceled:
        return PlainTextResponse("the views took too long\n", 503)
    return PlainTextResponse(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


def ready(request: Request) -> Response:
    try:
        request.app.state.check()
    except ClerkError as error:
        # The sentence names host and user, which is for the log only: anybody may ask here.
        logger.warning("not ready: %s", error)
        return PlainTextResponse(f"not ready: {_in_short(error)}\n", 503)
    return PlainTextResponse("ready\n")


async def live(request: Request) -> Response:
    return PlainTextResponse("alive\n")


def _in_short(error: ClerkError) -> str:
    match error:
        case DatabaseUnreachable():
            return "the database cannot be reached"
        case SchemaMismatch():
            return 'the schema is not the one that this dashboard reads, run "clerk db up"'
        case _:
            return "the database refuses, see the log"
