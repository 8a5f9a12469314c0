from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from clerk.web import live_updates
from clerk.web.live_updates import Broadcaster
from tests.conftest import Url
from tests.helpers import TIMEOUT
from tests.web.conftest import fetch
from tests.web.test_command import dashboard

HOUR = 3600.0


class LivePage:
    """A page with two live parts that a test can change. It counts how often it is rendered."""

    def __init__(self) -> None:
        self.parts = {"one": "1", "two": "2"}
        self.renderings = 0
        self.broken = False
        self.app = Starlette(routes=[Route("/page", self.show)])
        self.broadcaster = Broadcaster(self.app, [self.show])
        self.app.router.routes.append(Route("/events", self.broadcaster.events))

    async def show(self, request: Request) -> Response:
        self.renderings += 1
        if self.broken:
            raise RuntimeError("a defect in the page")
        return HTMLResponse("".join(f"<!--part {name}-->{text}<!--/part-->" for name, text in self.parts.items()))

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[str]]:
        """The messages to a browser that has the page open, after the first comment."""
        query = urlencode({"page": "/page"}).encode()
        response: Any = await self.broadcaster.events(Request({"type": "http", "query_string": query, "headers": []}))
        stream = response.body_iterator
        assert (await anext(stream)).startswith(":")
        try:
            yield stream
        finally:
            await stream.aclose()


def parse_update(message: str) -> dict[str, str]:
    match = re.fullmatch(r"event: update\ndata: (.*)\n\n", message)
    assert match, message
    parts: dict[str, str] = json.loads(match[1])
    return parts


async def next_change(stream: AsyncIterator[str]) -> dict[str, str]:
    """The next update that is not empty."""
    async for message in stream:
        if parts := parse_update(message):
            return parts
    raise AssertionError("the stream has ended")


@pytest.fixture
def live_page(monkeypatch: pytest.MonkeyPatch) -> LivePage:
    monkeypatch.setattr(live_updates, "MIN_IDLE", 0.0)
    monkeypatch.setattr(live_updates, "IDLE_FACTOR", 0)
    return LivePage()


def test_only_changed_parts_are_sent(live_page: LivePage) -> None:
    async def watch() -> None:
        async with live_page.subscribe() as stream:
            assert await next_change(stream) == {"one": "1", "two": "2"}
            live_page.parts["two"] = "3"
            assert await next_change(stream) == {"two": "3"}
            live_page.parts["one"] = "</script>\n\ndata: x"
            assert await next_change(stream) == {"one": "</script>\n\ndata: x"}

    asyncio.run(watch())


def test_all_subscribers_share_one_rendering(live_page: LivePage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "MIN_IDLE", HOUR)

    async def watch() -> None:
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(live_page.subscribe()) for _ in range(5)]
            for stream in streams:
                assert await next_change(stream) == live_page.parts
            late = await stack.enter_async_context(live_page.subscribe())
            assert await next_change(late) == live_page.parts
            assert live_page.renderings == 1

    asyncio.run(watch())


def test_nothing_is_rendered_without_subscribers(live_page: LivePage) -> None:
    async def watch() -> None:
        async with live_page.subscribe() as first, live_page.subscribe() as second:
            await next_change(first)
            await next_change(second)
            assert len(asyncio.all_tasks()) > 1
        assert live_page.broadcaster.subscribers == {}
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        async with live_page.subscribe() as again:
            assert await next_change(again) == live_page.parts

    asyncio.run(watch())


def test_a_disconnected_client_is_unsubscribed(live_page: LivePage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "MIN_IDLE", HOUR)
    disconnected = asyncio.Event()

    async def receive() -> Message:
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if b"event: update" in message.get("body", b""):
            assert len(live_page.broadcaster.subscribers) == 1
            disconnected.set()

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/events",
        "query_string": b"page=/page",
        "headers": [],
        "asgi": {"spec_version": "2.3"},
    }
    asyncio.run(live_page.app(scope, receive, send))
    assert live_page.broadcaster.subscribers == {}


def test_idle_time_grows_with_the_render_time() -> None:
    assert live_updates.idle_time(0.001) == live_updates.MIN_IDLE == 2
    assert live_updates.idle_time(2) == 100


def test_a_page_that_cannot_be_rendered_is_reported_and_recovers(live_page: LivePage) -> None:
    async def watch() -> None:
        async with live_page.subscribe() as stream:
            await next_change(stream)
            live_page.broken = True
            async for message in stream:
                if message == "event: unavailable\ndata: \n\n":
                    break
            live_page.broken = False
            live_page.parts["one"] = "back"
            async for message in stream:
                if "unavailable" not in message:
                    assert parse_update(message) == {"one": "back"}
                    break

    asyncio.run(watch())


def test_heartbeats_are_sent(live_page: LivePage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "MIN_IDLE", HOUR)
    monkeypatch.setattr(live_updates, "HEARTBEAT_INTERVAL", 0.01)

    async def watch() -> None:
        async with live_page.subscribe() as stream:
            async for message in stream:
                if message == ": heartbeat\n\n":
                    break

    asyncio.run(watch())


def test_a_slow_client_gets_only_the_latest_parts() -> None:
    async def watch() -> None:
        subscriber = live_updates.Subscriber()
        for number in range(1000):
            subscriber.notify({"one": str(number)})
        subscriber.notify({"two": "2"})
        assert parse_update(await subscriber.next_message()) == {"one": "999", "two": "2"}

    asyncio.run(watch())


@pytest.mark.parametrize(
    "page",
    ["", "/events?page=/", "/nowhere", "/metrics", "/static/live.js", "/livez", "http://localhost/", "/?" + "x" * 5000],
)
def test_only_live_pages_can_be_subscribed_to(client: TestClient, page: str) -> None:
    """Above all not /events itself, which would wait for itself."""
    assert client.get("/events", params={"page": page}).status_code == 404


def test_the_number_of_subscribers_is_limited(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "MAX_SUBSCRIBERS", 0)
    assert client.get("/events", params={"page": "/"}).status_code == 503


@pytest.mark.parametrize("page", ["/", "/sites", "/failures", "/queues", "/log"])
def test_every_live_part_is_extracted(client: TestClient, hostile_site: str, page: str) -> None:
    text = fetch(client, page)
    parts = dict(re.findall(r"<!--part ([a-z_]+)-->(.*?)<!--/part-->", text, re.DOTALL))
    assert parts
    assert list(parts) == re.findall(r'<div id="part-(\w+)" data-part>', text)
    assert "<form" not in "".join(parts.values())


def test_stops_while_pages_are_open(database: Url) -> None:
    """If the streams were not ended, the server would wait for them, cancel them, and log that."""
    with dashboard(database) as (process, url), ExitStack() as stack:
        client = stack.enter_context(httpx2.Client(base_url=url, timeout=TIMEOUT))
        streams = []
        for _ in range(5):
            response = stack.enter_context(client.stream("GET", "/events", params={"page": "/"}))
            lines = response.iter_lines()
            assert response.headers["content-type"].startswith("text/event-stream")
            assert next(line for line in lines if line.startswith("event")) == "event: update"
            streams.append(lines)
        process.send_signal(signal.SIGTERM)
        for lines in streams:
            list(lines)
        assert process.wait(TIMEOUT) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
