"""Endpoints for programs: Prometheus metrics, readiness and liveness."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import psycopg
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from clerk.errors import ClerkError, DatabaseUnreachable, SchemaMismatch
from clerk.monitoring.metrics import CONTENT_TYPE, render

logger = logging.getLogger(__name__)

READINESS_TTL = 5.0
"""Seconds."""


class Readiness:
    """Cached result of the readiness check. Anyone may request it without a token: that must not load the database."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._checking = asyncio.Lock()
        self._error: ClerkError | None = None
        self._expires_at = 0.0

    async def error(self) -> ClerkError | None:
        """Why the dashboard is not ready; None if it is. Concurrent requests wait for one check."""
        async with self._checking:
            if time.monotonic() >= self._expires_at:
                self._error = await run_in_threadpool(self._run)
                self._expires_at = time.monotonic() + READINESS_TTL
            return self._error

    def _run(self) -> ClerkError | None:
        try:
            self._check()
        except ClerkError as error:
            # The full message names host and user. The endpoint needs no token, so only the log gets it.
            logger.warning("not ready: %s", error)
            return error
        return None


def metrics(request: Request) -> Response:
    try:
        text = render(request.app.state.pool.metrics())
    except psycopg.errors.QueryCanceled:
        return PlainTextResponse("the database query timed out\n", 503)
    return PlainTextResponse(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


async def ready(request: Request) -> Response:
    error = await request.app.state.readiness.error()
    if error is not None:
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
