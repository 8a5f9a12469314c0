"""Web server on loopback with configurable responses, which records all requests."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PDF = b"%PDF-1.4\n"


def pdf(text: str) -> bytes:
    return PDF + text.encode() + b"\n%%EOF\n"


@dataclass(frozen=True)
class Request:
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    at: float
    concurrent: int
    """Number of requests in progress, including this one."""
    method: str = "GET"
    body: bytes = b""

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode(), keep_blank_values=True).items()}


@dataclass
class Reply:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Raw = Callable[[BaseHTTPRequestHandler], None]
Route = Reply | Callable[[Request], Reply] | Raw


class Web:
    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.server = server
        self.routes: dict[str, Callable[[Request], Reply] | Reply] = {}
        self.raw: dict[str, Raw] = {}
        self.requests: list[Request] = []
        self.lock = threading.Lock()
        self.running = 0
        self.released = threading.Event()
        """Set at the end of the test, so that endless responses end."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def serve_pdf(self, path: str, text: str, validators: bool = False) -> None:
        """Serve a document; with `validators`, respond with 304 to a matching If-None-Match."""
        tag = f'"{abs(hash(text))}"'

        def respond(request: Request) -> Reply:
            if validators and request.headers.get("if-none-match") == tag:
                return Reply(status=304)
            return Reply(pdf(text), headers={"ETag": tag} if validators else {})

        self.routes[path] = respond

    def serve_json(self, path: str, value: Any) -> None:
        self.routes[path] = Reply(json.dumps(value).encode(), headers={"Content-Type": "application/json"})

    def serve_html(self, path: str, html: str) -> None:
        self.routes[path] = Reply(html.encode(), headers={"Content-Type": "text/html; charset=utf-8"})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: Web

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        web = self.web
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        with web.lock:
            web.running += 1
            request = Request(
                parts.path,
                query,
                {name.lower(): value for name, value in self.headers.items()},
                time.monotonic(),
                web.running,
                self.command,
                body,
            )
            web.requests.append(request)
        try:
            with contextlib.suppress(ConnectionError):
                self._respond(request)
        finally:
            with web.lock:
                web.running -= 1

    def _respond(self, request: Request) -> None:
        if raw := self.web.raw.get(request.path):
            self.close_connection = True
            raw(self)
            return
        route = self.web.routes.get(request.path, Reply(b"not here", 404))
        reply = route if isinstance(route, Reply) else route(request)
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in reply.headers:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 (the base's name)
        pass


@contextlib.contextmanager
def run_server() -> Iterator[Web]:
    class Handler(_Handler):
        pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    Handler.web = Web(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Handler.web
    finally:
        Handler.web.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
