"""An HTTP proxy in front of an S3 server: it adds latency, and answers chosen requests with faults."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>{}</Message></Error>'


class Fault(Enum):
    SLOW_DOWN = (503, "SlowDown", "Please reduce your request rate.")
    WRONG_CREDENTIALS = (403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
    NO_BUCKET = (404, "NoSuchBucket", "The specified bucket does not exist")
    NO_ANSWER = "the request is read, and nothing is sent"
    LOST_REPLY = "the server does what it was asked to, and the connection ends without a reply"
    TRUNCATED = "the server gets one half of the body"
    CUT_DOWNLOAD = "the client gets one half of the body"


@dataclass
class FaultProxy:
    url: str
    """For the `endpoint` of a bucket."""
    latency: float = 0.0
    """Seconds that each request waits."""
    faults: list[Fault] = field(default_factory=list)
    """Of the next requests that `applies_to`, one after the other."""
    applies_to: Callable[[str, str], bool] = lambda method, path: True
    always: Fault | None = None
    """Of every request that `applies_to`."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of all requests."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next_fault(self, method: str, path: str) -> Fault | None:
        with self._lock:
            self.requests.append((method, path))
            if not self.applies_to(method, path):
                return None
            return self.faults.pop(0) if self.faults else self.always

    def count(self, method: str) -> int:
        return sum(request[0] == method for request in self.requests)


@contextlib.contextmanager
def fault_proxy(endpoint: str, latency: float = 0.0) -> Iterator[FaultProxy]:
    """A proxy on a free port for the server at `endpoint`."""
    target = urlsplit(endpoint)
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.upstream = http.client.HTTPConnection(target.hostname or "", target.port or 80)

        def finish(self) -> None:
            self.upstream.close()
            super().finish()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name of the base class)
            """Logs nothing."""

        def handle_one_request(self) -> None:
            # A client that gives up closes its connection.
            with contextlib.suppress(ConnectionError):
                super().handle_one_request()
                return
            self.close_connection = True

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy.next_fault(self.command, self.path)
            if proxy.latency:
                time.sleep(proxy.latency)
            if fault is Fault.NO_ANSWER:
                stopped.wait()
            if fault is Fault.NO_ANSWER or fault is Fault.LOST_REPLY:
                if fault is Fault.LOST_REPLY:
                    self._request(body)
                self.close_connection = True
                return
            if fault is not None and isinstance(fault.value, tuple):
                status, code, message = fault.value
                self._answer(status, [("Content-Type", "application/xml")], _ERROR.format(code, message).encode())
                return
            status, headers, content = self._request(body[: len(body) // 2] if fault is Fault.TRUNCATED else body)
            self._answer(status, headers, content, cut=fault is Fault.CUT_DOWNLOAD)

        def _request(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
            self.upstream.request(self.command, self.path, body, headers | {"Content-Length": str(len(body))})
            response = self.upstream.getresponse()
            return response.status, response.getheaders(), response.read()

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, cut: bool = False) -> None:
            self.send_response_only(status)
            lengths = [value for name, value in headers if name.lower() == "content-length"]
            for name, value in headers:
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            # The reply to HEAD names a length, and has no content.
            length = lengths[0] if self.command == "HEAD" and lengths else str(len(content))
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cut else content)
            if cut:
                self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815 (names of the base class)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy = FaultProxy(f"http://127.0.0.1:{server.server_address[1]}", latency)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()
