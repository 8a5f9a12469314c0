"""Keeps open pages up to date: one look at each page that somebody has open, for all who have it open.

A page is looked at as a browser would ask for it. Its parts that a template marks (`live` in parts.html) are sent when
they have changed, as server-sent events; static/live.js puts them in place. The catch: what a look costs, the pipeline
pays. So there is one look after the other, with rests that are `REST` times as long, and none when nobody listens.
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

LEAST_REST = 2.0
IDLE_FACTOR = 50
"""Rests are so many times as long as the looks before them: a core is then busy with them for 2 % of its time."""
HEARTBEAT = 15.0
"""Proxies close what is silent for a minute."""
LISTENERS_AT_MOST = 200
_LONGEST_ADDRESS = 2000
_PART = re.compile(r"<!--part ([a-z_]+)-->(.*?)<!--/part-->", re.DOTALL)
"""Only templates can write these: what comes from outside is escaped."""

Page = Callable[..., Any]


class Subscriber:
    """An open page: what it has not been told yet. Newer parts replace older ones, so a slow reader costs nothing."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.parts: dict[str, str] = {}
        self.trouble = False

    def tell(self, parts: dict[str, str] | None) -> None:
        self.trouble = parts is None
        self.parts |= parts or {}
        self.news.set()

    async def next(self) -> str:
        try:
            # Not wait_for: in Python 3.11 that may swallow being cancelled, and who has left is never missed.
            async with asyncio.timeout(HEARTBEAT):
                await self.news.wait()
        except TimeoutError:
            return ": nothing new\n\n"
        self.news.clear()
        if self.trouble:
            return "event: trouble\ndata: \n\n"
        parts, self.parts = self.parts, {}
        return f"event: look\ndata: {json.dumps(parts)}\n\n"


class Broadcaster:
    def __init__(self, app: Starlette, pages: Collection[Page]) -> None:
        self.app = app
        self.pages = pages
        self.listeners: dict[str, set[Subscriber]] = {}
        """Address → who has it open."""
        self._seen: dict[str, dict[str, str]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._stopping = False

    async def events(self, request: Request) -> Response:
        address = request.query_params.get("page", "")
        if len(address) > _LONGEST_ADDRESS or not self._is_page(address):
            raise HTTPException(404, "That page does not change by itself.")
        if sum(map(len, self.listeners.values())) >= LISTENERS_AT_MOST:
            raise HTTPException(503, "Too many pages are open.")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._stream(address), media_type="text/event-stream", headers=headers)

    def stop(self) -> None:
        """End every stream: a server that stops would wait for them. To be called in the server's own thread."""
        self._stopping = True
        for listeners in self.listeners.values():
            for listener in listeners:
                listener.news.set()

    async def _stream(self, address: str) -> AsyncIterator[str]:
        with self._listening(address) as listener:
            yield ": here you are\n\n"
            while not self._stopping:
                message = await listener.next()
                if not self._stopping:
                    yield message

    @contextlib.contextmanager
    def _listening(self, address: str) -> Iterator[Subscriber]:
        listener = Subscriber()
        self.listeners.setdefault(address, set()).add(listener)
        if address in self._seen:
            # The page was made some time before it began to listen.
            listener.tell(self._seen[address])
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_around())
        try:
            yield listener
        finally:
            self.listeners[address].discard(listener)
            if not self.listeners[address]:
                del self.listeners[address]
                self._seen.pop(address, None)
            if not self.listeners:
                self._looking.cancel()
                self._looking = None

    async def _look_around(self) -> None:
        while True:
            began = time.monotonic()
            for address in list(self.listeners):
                parts = await self._look(address)
                # Whoever listened may be gone by now.
                if address in self.listeners:
                    self._tell(address, parts)
            await asyncio.sleep(rest_after(time.monotonic() - began))

    def _tell(self, address: str, parts: dict[str, str] | None) -> None:
        """Also when nothing has changed: the page says when it was looked at last."""
        changed = None
        if parts is not None:
            before = self._seen.get(address, {})
            changed = {name: html for name, html in parts.items() if before.get(name) != html}
            self._seen[address] = parts
        for listener in self.listeners[address]:
            listener.tell(changed)

    async def _look(self, address: str) -> dict[str, str] | None:
        """The live parts of a page; None if it cannot be shown now."""
        status = 0
        body = bytearray()

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            body.extend(message.get("body", b""))

        try:
            await self.app(_asking_for(address), receive, send)
        except Exception:
            # A mistake in one page must not end the looks at the others.
            logger.exception("cannot look at %s", address)
            return None
        return dict(_PART.findall(body.decode())) if status == 200 else None

    def _is_page(self, address: str) -> bool:
        scope = _asking_for(address)
        for route in self.app.routes:
            if route.matches(scope)[0] is Match.FULL:
                return isinstance(route, Route) and route.endpoint in self.pages
        return False


def rest_after(took: float) -> float:
    return max(LEAST_REST, IDLE_FACTOR * took)


def _asking_for(address: str) -> Scope:
    path, _, query = address.partition("?")
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
