"""Server-sent events that keep open pages up to date; each open page is rendered once for all its subscribers.

A page is rendered as for a browser. The parts that its template marks as live (`live` in macros.html) are sent when
they have changed, and static/live.js merges them into the document. Limitation: rendering costs the database queries.
So pages are rendered one after the other, followed by an idle time `IDLE_FACTOR` times as long, and not at all without
subscribers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import Message, Scope

logger = logging.getLogger(__name__)

MIN_IDLE = 2.0
IDLE_FACTOR = 50
"""Limits rendering to 2 % of one core."""
HEARTBEAT_INTERVAL = 15.0
"""Proxies close connections that are silent for a minute."""
MAX_SUBSCRIBERS = 200
_MAX_URL_LENGTH = 2000
_PART = re.compile(r"<!--part ([a-z_]+)-->(.*?)<!--/part-->", re.DOTALL)
"""Only templates can write these comments: other text is escaped."""

Endpoint = Callable[..., Any]


class Subscriber:
    """One open page and its pending updates. Newer parts replace older ones, so a slow client uses no more memory."""

    def __init__(self) -> None:
        self.updated = asyncio.Event()
        self.parts: dict[str, str] = {}
        self.unavailable = False

    def notify(self, parts: dict[str, str] | None) -> None:
        """`None`: the page cannot be rendered now."""
        self.unavailable = parts is None
        self.parts |= parts or {}
        self.updated.set()

    async def next_message(self) -> str:
        try:
            # Not wait_for: in Python 3.11 it can swallow a cancellation, so a client that left would stay subscribed.
            async with asyncio.timeout(HEARTBEAT_INTERVAL):
                await self.updated.wait()
        except TimeoutError:
            return ": heartbeat\n\n"
        self.updated.clear()
        if self.unavailable:
            return "event: unavailable\ndata: \n\n"
        parts, self.parts = self.parts, {}
        return f"event: update\ndata: {json.dumps(parts)}\n\n"


class Broadcaster:
    def __init__(self, app: Starlette, endpoints: Collection[Endpoint]) -> None:
        """`endpoints` are those whose pages can be subscribed to."""
        self.app = app
        self.endpoints = endpoints
        self.subscribers: dict[str, set[Subscriber]] = {}
        """URL → subscribers."""
        self._last_parts: dict[str, dict[str, str]] = {}
        self._render_task: asyncio.Task[None] | None = None
        self._stopping = False

    async def events(self, request: Request) -> Response:
        url = request.query_params.get("page", "")
        if len(url) > _MAX_URL_LENGTH or not self._is_live_page(url):
            raise HTTPException(404, "This page has no live updates.")
        if sum(map(len, self.subscribers.values())) >= MAX_SUBSCRIBERS:
            raise HTTPException(503, f"The limit of {MAX_SUBSCRIBERS} open pages is reached. Close some.")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._stream(url), media_type="text/event-stream", headers=headers)

    def stop(self) -> None:
        """End all streams. Call it in the thread of the server's event loop."""
        self._stopping = True
        for subscribers in self.subscribers.values():
            for subscriber in subscribers:
                subscriber.updated.set()

    async def _stream(self, url: str) -> AsyncIterator[str]:
        with self._subscription(url) as subscriber:
            yield ": connected\n\n"
            while not self._stopping:
                message = await subscriber.next_message()
                if not self._stopping:
                    yield message

    @contextlib.contextmanager
    def _subscription(self, url: str) -> Iterator[Subscriber]:
        subscriber = Subscriber()
        self.subscribers.setdefault(url, set()).add(subscriber)
        if url in self._last_parts:
            # The page may have changed between its rendering and this subscription.
            subscriber.notify(self._last_parts[url])
        if self._render_task is None:
            self._render_task = asyncio.create_task(self._render_all())
        try:
            yield subscriber
        finally:
            self.subscribers[url].discard(subscriber)
            if not self.subscribers[url]:
                del self.subscribers[url]
                self._last_parts.pop(url, None)
            if not self.subscribers:
                self._render_task.cancel()
                self._render_task = None

    async def _render_all(self) -> None:
        while True:
            started = time.monotonic()
            for url in list(self.subscribers):
                parts = await self._render(url)
                # The last subscriber may have left during rendering.
                if url in self.subscribers:
                    self._publish(url, parts)
            await asyncio.sleep(idle_time(time.monotonic() - started))

    def _publish(self, url: str, parts: dict[str, str] | None) -> None:
        """Also if nothing has changed: the page shows the time of the last update."""
        changed = None
        if parts is not None:
            previous = self._last_parts.get(url, {})
            changed = {name: html for name, html in parts.items() if previous.get(name) != html}
            self._last_parts[url] = parts
        for subscriber in self.subscribers[url]:
            subscriber.notify(changed)

    async def _render(self, url: str) -> dict[str, str] | None:
        """The live parts of a page; None if it cannot be rendered now."""
        status = 0
        body = bytearray()

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            body.extend(message.get("body", b""))

        try:
            await self.app(_request_scope(url), receive, send)
        except Exception:
            # A defect in one page must not end the updates of the others.
            logger.exception("cannot render %s for live updates", url)
            return None
        return dict(_PART.findall(body.decode())) if status == 200 else None

    def _is_live_page(self, url: str) -> bool:
        scope = _request_scope(url)
        for route in self.app.routes:
            if route.matches(scope)[0] is Match.FULL:
                return isinstance(route, Route) and route.endpoint in self.endpoints
        return False


def idle_time(render_time: float) -> float:
    return max(MIN_IDLE, IDLE_FACTOR * render_time)


def _request_scope(url: str) -> Scope:
    path, _, query = url.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": None,
        "server": ("localhost", 80),
        "state": {},
    }
