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
from tests.web.conftest import shown
from tests.web.test_command import dashboard

NEVER = 3600.0


class Board:
    """A page with two parts that a test can change, and that counts who looks."""

    def __init__(self) -> None:
        self.parts = {"one": "1", "two": "2"}
        self.looks = 0
        self.broken = False
        self.app = Starlette(routes=[Route("/board", self.show)])
        self.live = Broadcaster(self.app, [self.show])
        self.app.router.routes.append(Route("/events", self.live.events))

    async def show(self, request: Request) -> Response:
        self.looks += 1
        if self.broken:
            raise RuntimeError("a mistake in the page")
        return HTMLResponse("".join(f"<!--part {name}-->{text}<!--/part-->" for name, text in self.parts.items()))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[AsyncIterator[str]]:
        """What a browser hears that has the page open, without the greeting."""
        query = urlencode({"page": "/board"}).encode()
        response: Any = await self.live.events(Request({"type": "http", "query_string": query, "headers": []}))
        stream = response.body_iterator
        assert (await anext(stream)).startswith(":")
        try:
            yield stream
        finally:
            await stream.aclose()


def parts(message: str) -> dict[str, str]:
    found = re.fullmatch(r"event: look\ndata: (.*)\n\n", message)
    assert found, message
    changed: dict[str, str] = json.loads(found[1])
    return changed


async def changed(stream: AsyncIterator[str]) -> dict[str, str]:
    """The next parts that are news."""
    async for message in stream:
        if found := parts(message):
            return found
    raise AssertionError("the stream has ended")


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Board:
    monkeypatch.setattr(live_updates, "LEAST_REST", 0.0)
    monkeypatch.setattr(live_updates, "IDLE_FACTOR", 0)
    return Board()


def test_only_what_changed_is_sent(board: Board) -> None:
    async def watch() -> None:
        async with board.opened() as stream:
            assert await changed(stream) == {"one": "1", "two": "2"}
            board.parts["two"] = "3"
            assert await changed(stream) == {"two": "3"}
            board.parts["one"] = "</script>\n\ndata: x"
            assert await changed(stream) == {"one": "</script>\n\ndata: x"}

    asyncio.run(watch())


def test_all_who_have_a_page_open_share_one_look(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "LEAST_REST", NEVER)

    async def watch() -> None:
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(board.opened()) for _ in range(5)]
            for stream in streams:
                assert await changed(stream) == board.parts
            late = await stack.enter_async_context(board.opened())
            assert await changed(late) == board.parts
            assert board.looks == 1

    asyncio.run(watch())


def test_nobody_looks_when_nobody_listens(board: Board) -> None:
    async def watch() -> None:
        async with board.opened() as one, board.opened() as other:
            await changed(one)
            await changed(other)
            assert len(asyncio.all_tasks()) > 1
        assert board.live.listeners == {}
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        async with board.opened() as again:
            assert await changed(again) == board.parts

    asyncio.run(watch())


def test_who_goes_away_is_noticed(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "LEAST_REST", NEVER)
    gone = asyncio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if b"event: look" in message.get("body", b""):
            assert len(board.live.listeners) == 1
            gone.set()

    asked = {
        "type": "http",
        "method": "GET",
        "path": "/events",
        "query_string": b"page=/board",
        "headers": [],
        "asgi": {"spec_version": "2.3"},
    }
    asyncio.run(board.app(asked, receive, send))
    assert board.live.listeners == {}


def test_rests_grow_with_what_looks_cost() -> None:
    assert live_updates.rest_after(0.001) == live_updates.LEAST_REST == 2
    assert live_updates.rest_after(2) == 100


def test_a_page_that_cannot_be_shown_is_told_and_comes_back(board: Board) -> None:
    async def watch() -> None:
        async with board.opened() as stream:
            await changed(stream)
            board.broken = True
            async for message in stream:
                if message == "event: trouble\ndata: \n\n":
                    break
            board.broken = False
            board.parts["one"] = "back"
            async for message in stream:
                if "trouble" not in message:
                    assert parts(message) == {"one": "back"}
                    break

    asyncio.run(watch())


def test_silence_is_broken_now_and_then(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "LEAST_REST", NEVER)
    monkeypatch.setattr(live_updates, "HEARTBEAT", 0.01)

    async def watch() -> None:
        async with board.opened() as stream:
            async for message in stream:
                if message == ": nothing new\n\n":
                    break

    asyncio.run(watch())


def test_a_slow_reader_gets_the_newest_only() -> None:
    async def watch() -> None:
        listener = live_updates.Subscriber()
        for number in range(1000):
            listener.tell({"one": str(number)})
        listener.tell({"two": "2"})
        assert parts(await listener.next()) == {"one": "999", "two": "2"}

    asyncio.run(watch())


@pytest.mark.parametrize(
    "page",
    ["", "/events?page=/", "/nowhere", "/metrics", "/static/live.js", "/livez", "http://localhost/", "/?" + "x" * 5000],
)
def test_only_pages_can_be_listened_to(client: TestClient, page: str) -> None:
    """The events themselves above all: they would wait for themselves."""
    assert client.get("/events", params={"page": page}).status_code == 404


def test_not_for_everybody_at_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "LISTENERS_AT_MOST", 0)
    assert client.get("/events", params={"page": "/"}).status_code == 503


@pytest.mark.parametrize("page", ["/", "/sites", "/failures", "/queues", "/log"])
def test_what_is_marked_is_found(client: TestClient, hostile_site: str, page: str) -> None:
    text = shown(client, page)
    found = dict(re.findall(r"<!--part ([a-z_]+)-->(.*?)<!--/part-->", text, re.DOTALL))
    assert found
    assert list(found) == re.findall(r'<div id="part-(\w+)" data-part>', text)
    assert "<form" not in "".join(found.values())


def test_stops_although_pages_are_open(database: Url) -> None:
    """Without the streams being ended, the server would wait for them, cancel them, and say so."""
    with dashboard(database) as (process, address), ExitStack() as stack:
        client = stack.enter_context(httpx2.Client(base_url=address, timeout=60))
        streams = []
        for _ in range(5):
            response = stack.enter_context(client.stream("GET", "/events", params={"page": "/"}))
            lines = response.iter_lines()
            assert response.headers["content-type"].startswith("text/event-stream")
            assert next(line for line in lines if line.startswith("event")) == "event: look"
            streams.append(lines)
        process.send_signal(signal.SIGTERM)
        for lines in streams:
            list(lines)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
